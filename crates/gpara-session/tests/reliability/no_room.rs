//! A file that cannot be written: a clear error, and nothing that was acknowledged is lost.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use gpara_session::Campaign;

use crate::child::{Said, Work, command, listen, new_session};

/// Exit code of a child whose tell was refused.
const REFUSED: i32 = 3;

/// The number of values a child told before it was refused, and what it said then.
fn run_until_refused(mut child: Child) -> (usize, String) {
    let mut told = 0;
    listen(&mut child, |said| told += usize::from(matches!(said, Said::Told { .. })));
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(REFUSED), "{complaint}");
    (told, complaint)
}

/// The session holds exactly what was acknowledged and takes more once there is room.
fn check_and_go_on(path: &Path, told: usize) {
    let campaign = Campaign::open(path).unwrap();
    campaign.file().check_integrity().unwrap();
    assert_eq!(campaign.file().told().unwrap().len(), told);
    drop(campaign);
    let mut child = command(path, Work { writer: 2, tells: 3, asks: false }).spawn().unwrap();
    listen(&mut child, |_| ());
    assert!(child.wait().unwrap().success());
    assert_eq!(Campaign::open(path).unwrap().file().told().unwrap().len(), told + 3);
}

#[test]
fn file_that_may_not_grow_refuses_the_tell_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    new_session(&path);
    let inner = command(&path, Work { writer: 1, tells: 100_000, asks: false });
    // The shell limits the size of files to 200 blocks of 512 bytes and ignores the signal that goes with it.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""]).arg(inner.get_program());
    limited.args(inner.get_args());
    limited.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let (told, complaint) = run_until_refused(limited.spawn().unwrap());
    assert!(told > 0 && complaint.contains("refused: Io cannot write"), "{told}: {complaint}");
    check_and_go_on(&path, told);
}

#[test]
fn full_disk_refuses_the_tell_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=400k", "tmpfs"]).arg(&disk).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: a small tmpfs cannot be mounted here; the test beside this one limits the file instead");
        return;
    }
    let path = disk.join("S.gpara");
    let filler = disk.join("filler");
    let run = std::panic::catch_unwind(|| {
        new_session(&path);
        std::fs::write(&filler, vec![0; 100_000]).unwrap();
        let child = command(&path, Work { writer: 1, tells: 100_000, asks: false }).spawn().unwrap();
        let (told, complaint) = run_until_refused(child);
        assert!(told > 0 && complaint.contains("the disk is full"), "{told}: {complaint}");
        std::fs::remove_file(&filler).unwrap();
        check_and_go_on(&path, told);
    });
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    run.unwrap();
}

#[test]
fn read_only_file_can_be_looked_at_and_refuses_a_tell() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    new_session(&path);
    let mut child = command(&path, Work { writer: 1, tells: 2, asks: false }).spawn().unwrap();
    listen(&mut child, |_| ());
    assert!(child.wait().unwrap().success());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();

    let as_nobody = |tells| {
        let mut command = command(&path, Work { writer: 2, tells, asks: false });
        if is_root() {
            // Nothing is read-only to the superuser, so the child is nobody.
            command.uid(65534).gid(65534);
        }
        command.spawn()
    };
    match as_nobody(1) {
        Ok(child) => {
            let (told, complaint) = run_until_refused(child);
            assert!(told == 0 && complaint.contains("refused: Io") && complaint.contains("read-only"), "{complaint}");
            let mut seen = Vec::new();
            let mut looker = as_nobody(0).unwrap();
            listen(&mut looker, |said| seen.push(said));
            assert!(looker.wait().unwrap().success());
            assert_eq!(seen, [Said::Told { tell: 0, value: 2.0 }]);
        }
        Err(error) => eprintln!("skipped: nobody may not run this test's binary ({error})"),
    }
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(Campaign::open_read_only(&path).unwrap().status().unwrap().num_values, 2);
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}
