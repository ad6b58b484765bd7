//! The examples of the guides.

/// The examples of a page in `sh`: what follows the language of each fence, and its lines.
pub fn examples(page: &str) -> Vec<(Vec<&str>, String)> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let code: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
        let mut words = language.split(',');
        if words.next() == Some("sh") {
            found.push((words.collect(), code.join("\n")));
        }
    }
    found
}
