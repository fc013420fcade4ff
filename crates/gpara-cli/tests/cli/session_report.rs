//! The page of a session, in a browser where there is one.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::gpara;
use crate::session::{ask_and_measure, begin};

/// A session with measured, pending and failed points, and its page.
fn page(folder: &Path) -> String {
    begin(folder, "--stop-at 2dB");
    for _ in 0..3 {
        ask_and_measure(folder, 8);
        gpara(folder, "tell S.gpara told.csv").success();
    }
    gpara(folder, "ask S.gpara -n 4").success();
    gpara(folder, "tell S.gpara --row 0 --col 3 --failed").success();
    gpara(folder, "reconstruct S.gpara -o map.npy").success();
    gpara(folder, "report S.gpara -o report.html").success();
    std::fs::read_to_string(folder.join("report.html")).unwrap()
}

#[test]
fn report_is_one_offline_page_with_every_part() {
    let temporary = tempfile::tempdir().unwrap();
    let page = page(temporary.path());
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("<script"), "outside link or script");
    for part in [
        "24 cells measured of a budget of 40",
        "measured (24)",
        "pending (4)",
        "failed (1)",
        "id=\"base-1\"",
        "id=\"zoom-400\"",
        "Leave-one-out",
        "leave-one-out",
        "when it was asked for",
        "8 values from told.csv",
        "prior.drift",
        "gaussian, fitted 3, drift constant",
        "fitted: range",
        "map.npy",
        "target of 2 dB is",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for tag in ["section", "figure", "svg", "table", "tr", "dl", "fieldset", "label", "div", "main", "g", "style"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

/// Measures the page in the browser and writes what it finds into the document's title. Every control is reached and
/// used as a keyboard would: focus, then the key's effect. An enlarged map may lose the width of a scroll bar.
const PROBE: &str = r##"<script>
const found = [];
const wide = document.documentElement.scrollWidth - window.innerWidth;
if (wide > 0) found.push("page is " + wide + " px too wide");
for (const node of document.querySelectorAll("h1,h2,h3,p,figcaption,label,legend,dt,dd")) {
  const box = node.getBoundingClientRect();
  if (box.right > window.innerWidth + 1 || box.left < -1) found.push("cut: " + node.textContent.slice(0, 40));
  if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).display !== "inline") found.push("overflows: " + node.textContent.slice(0, 40));
}
const controls = document.querySelectorAll(".viewer input");
for (const control of controls) { control.focus(); if (document.activeElement !== control) found.push("no focus: " + control.id); }
const shown = selector => getComputedStyle(document.querySelector(selector)).display !== "none";
if (!shown("image.base-0") || shown("image.base-1")) found.push("first map is not the one shown");
document.querySelector("#base-1").click();
if (shown("image.base-0") || !shown("image.base-1")) found.push("map does not switch");
document.querySelector("#base-0").click();
if (!shown("g.pending")) found.push("pending points are hidden");
document.querySelector("#layer-pending").click();
if (shown("g.pending")) found.push("pending points cannot be hidden");
document.querySelector("#layer-pending").click();
const sheet = document.querySelector(".sheet"), before = sheet.getBoundingClientRect().width;
document.querySelector("#zoom-400").click();
if (sheet.getBoundingClientRect().width < 3.5 * before) found.push("zoom does not enlarge");
if (document.documentElement.scrollWidth > window.innerWidth) found.push("zoom widens the page");
document.querySelector("#zoom-100").click();
document.title = "found " + found.length + ": " + found.join("; ") + " width " + window.innerWidth;
</script>"##;

#[test]
fn report_fits_wide_and_narrow_screens_in_a_browser() {
    let Some(browser) = browser() else {
        eprintln!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    };
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let page = page(folder);
    // A frame has exactly the width we want; a window may not be made narrower than the browser allows.
    let probed = page.replace("</body>", &format!("{PROBE}</body>"));
    std::fs::write(folder.join("probed.html"), probed).unwrap();
    for width in [1280, 390] {
        let frame = format!(
            "<!DOCTYPE html><title>waiting</title><body style=\"margin:0\"><iframe style=\"border:0;width:{width}px;height:900px\" \
             src=\"probed.html\" onload=\"document.title = this.contentDocument.title\"></iframe></body>"
        );
        std::fs::write(folder.join("frame.html"), frame).unwrap();
        let output = Command::new(&browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0"])
            .args(["--allow-file-access-from-files", "--virtual-time-budget=5000", "--dump-dom"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(format!("file://{}", folder.join("frame.html").display()))
            .output()
            .unwrap();
        let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap_or("no title");
        assert_eq!(title, format!("found 0: width {width}"), "{log}");
        let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
    if let Some(kept) = std::env::var_os("GPARA_SCREENSHOTS") {
        let kept = Path::new(&kept);
        std::fs::create_dir_all(kept).unwrap();
        std::fs::copy(folder.join("report.html"), kept.join("session_report.html")).unwrap();
    }
}

fn browser() -> Option<PathBuf> {
    let known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    known.iter().map(PathBuf::from).find(|path| path.exists())
}
