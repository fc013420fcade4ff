//! What a session refuses: exit code 2, one message with a hint, nothing changed.

use crate::bad_input::{Case, check};
use crate::program::gpara;

#[test]
fn new_refuses_bad_input_and_makes_no_file() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("city.csv", "0,0,0\n0,1,0\n");
    write("gray.csv", "0,0,7\n");
    write("none.csv", "0,0\n0,0\n");
    write("cost.csv", "1,1\n1,-2\n");
    write("cells.csv", "row,col\n0,9\n");
    write("small.csv", "1,1,1\n");
    check(
        folder,
        &[
            Case { arguments: "new S.gpara", says: &["size is missing", "--grid"] },
            Case { arguments: "new S.gpara --grid 0x5", says: &["0x5"] },
            Case { arguments: "new S.gpara --task radio --buildings city.csv", says: &["--tx ROW,COL"] },
            Case { arguments: "new S.gpara --task radio --tx 0,0", says: &["--buildings"] },
            Case { arguments: "new S.gpara --buildings city.csv --tx 1,1", says: &["row 1, col 1", "building"] },
            Case { arguments: "new S.gpara --buildings city.csv --tx 5,0", says: &["row 5", "2x3"] },
            Case { arguments: "new S.gpara --buildings gray.csv --tx 0,0", says: &["--buildings", "holds 7"] },
            Case { arguments: "new S.gpara --buildings no.png --tx 0,0", says: &["no.png"] },
            Case { arguments: "new S.gpara --field-mask none.csv", says: &["all 4 cells", "invalid"] },
            Case { arguments: "new S.gpara --grid 2x2 --preset best", says: &["best", "radio"] },
            Case { arguments: "new S.gpara --grid 2x2 --preset fast", says: &["`fast`"] },
            Case { arguments: "new S.gpara --grid 2x2 --budget 0", says: &["budget = 0"] },
            Case { arguments: "new S.gpara --grid 2x2 --sigma=-1", says: &["sigma = -1"] },
            Case { arguments: "new S.gpara --grid 2x2 --unit m --sigma 1dB", says: &["`dB`", "`m`"] },
            Case { arguments: "new S.gpara --grid 2x2 --range=1,1", says: &["1,1", "LOW < HIGH"] },
            Case { arguments: "new S.gpara --grid 2x2 --cost cost.csv", says: &["cost is -2", "row 1, col 1"] },
            Case { arguments: "new S.gpara --grid 2x2 --candidates cells.csv", says: &["line 2", "`9`"] },
            Case { arguments: "new S.gpara --grid 2x2 --importance small.csv", says: &["1x3", "2x2"] },
            Case { arguments: "new S.gpara --grid 2x2 --region 0,0,5,1", says: &["row 5", "2x2"] },
            Case { arguments: "new no/S.gpara --grid 2x2", says: &["no/S.gpara"] },
        ],
    );
    gpara(folder, "new S.gpara --buildings city.csv --tx 0,0 --preset gaussian --budget 2").success();
    check(folder, &[Case { arguments: "new S.gpara --grid 2x2", says: &["`S.gpara` exists already"] }]);
}

#[test]
fn ask_tell_status_and_reconstruct_refuse_bad_input_and_change_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("mask.csv", "1,1,1,1\n1,1,0,1\n1,1,1,1\n");
    gpara(folder, "new S.gpara --field-mask mask.csv --range=0,10 --unit m --budget 5").success();
    // The session is bound to its method by the first use, which the refused commands below must not do again.
    gpara(folder, "ask S.gpara").success();
    write("text.gpara", "not a session, but a text that is long enough to be looked at as a database file by SQLite");
    write("no_value.csv", "row,col\n1,1\n");
    write("exact.csv", "row,col,value\n0,0,1\n0,0,2\n");
    write("empty.csv", "row,col,value\n");
    write("mask_hit.csv", "row,col,value\n0,0,1\n1,2,2\n");
    check(
        folder,
        &[
            Case { arguments: "ask no.gpara", says: &["no session file `no.gpara`", "gpara new"] },
            Case { arguments: "ask text.gpara", says: &["`text.gpara` is not a gpara session"] },
            Case { arguments: "ask S.gpara -n 0", says: &["0 points"] },
            Case { arguments: "ask S.gpara --cost-budget 0", says: &["cost-budget = 0"] },
            Case { arguments: "ask S.gpara --route --from 1,2", says: &["row 1, col 2", "mask"] },
            Case { arguments: "tell S.gpara", says: &["nothing to tell", "--value"] },
            Case { arguments: "tell S.gpara no.csv", says: &["no.csv"] },
            Case { arguments: "tell S.gpara no_value.csv", says: &["no column `value`"] },
            Case { arguments: "tell S.gpara exact.csv", says: &["line 2 and line 3", "1 and 2"] },
            Case { arguments: "tell S.gpara empty.csv", says: &["empty.csv"] },
            Case { arguments: "tell S.gpara mask_hit.csv", says: &["line 3", "row 1, col 2", "mask"] },
            Case { arguments: "tell S.gpara --row 3 --col 0 --value 1", says: &["row 3, col 0", "3x4"] },
            Case { arguments: "tell S.gpara --row 1 --col 2 --failed", says: &["row 1, col 2", "mask"] },
            Case { arguments: "tell S.gpara --row 1 --col 1 --value 1dB", says: &["`dB`", "`m`"] },
            Case { arguments: "tell S.gpara --row 1 --col 1 --value 1 --sigma=-1", says: &["sigma -1"] },
            Case { arguments: "status S.gpara --stop-at 1dB", says: &["`dB`", "`m`"] },
            Case { arguments: "reconstruct S.gpara -o map.jpg", says: &["map.jpg", ".npy"] },
            Case { arguments: "reconstruct S.gpara -o no/map.npy", says: &["no/map.npy"] },
        ],
    );
}
