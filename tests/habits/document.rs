//! docs/HABITS.md, made of the lines.

use crate::*;

const HEAD: &str = "# Command lines from habit

Each line is run by `tests/habits` twice: by the program that it comes from, on the kernel's mount of an image, and by uext4,
on the image. Exit code, standard output, whether anything is said on standard error, and the trees afterwards are
equal, but for what the last column names. `@` is the image, as `disk.img:`; in the original it is the directory of the mount.
`make docs` writes this file.
";

/// The document.
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    let mut lines = 0;
    for name in FILES {
        text +=
            &format!("\n## {name}\n\n| line | in the original | differs |\n| --- | --- | --- |\n");
        for record in record::of_file(name) {
            let theirs = record
                .theirs
                .as_ref()
                .map_or("the same".to_owned(), |line| code(line));
            let excuses: Vec<String> = record
                .excuses
                .iter()
                .map(|(what, why)| format!("{what}: {why}"))
                .collect();
            text += &format!(
                "| {} | {theirs} | {} |\n",
                code(&record.line),
                excuses.join("; ").replace('|', "\\|")
            );
            lines += 1;
        }
    }
    text + &format!("\n{lines} lines.\n")
}

fn code(line: &str) -> String {
    format!("`{}`", line.replace('|', "\\|"))
}
