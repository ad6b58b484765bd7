//! What the page has, as data in `page.json`.

use super::figure::Figure;
use super::headlines::Headlines;
use serde::Deserialize;

/// The page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Its heading.
    pub title: String,
    /// Its first paragraph.
    pub intro: String,
    /// The summary.
    pub headlines: Vec<Headlines>,
    /// What was measured.
    pub parts: Vec<Part>,
    /// How peers are measured.
    pub peers: Vec<String>,
}

/// A part of the page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Names it in links.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What is measured.
    pub text: String,
    /// The sections of the report that it shows.
    pub sections: Vec<String>,
    /// The sections whose locks it lists: of the operation, at the most threads.
    #[serde(default)]
    pub locks: Vec<(String, String)>,
    /// The sections whose stages of a create it lists.
    #[serde(default)]
    pub stages: Vec<String>,
    /// Its charts.
    pub figures: Vec<Figure>,
}

impl Template {
    /// The page of this version.
    pub fn read() -> serde_json::Result<Template> {
        serde_json::from_str(include_str!("page.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::FIELDS;
    use super::*;

    #[test]
    fn the_template_names_only_fields_that_rows_have() {
        let template = Template::read().unwrap();
        let figures = || template.parts.iter().flat_map(|part| &part.figures);
        let lines = template.headlines.iter().flat_map(|table| &table.lines);
        let kept = figures().map(|f| &f.keep).chain(lines.map(|l| &l.keep));
        let mut named: Vec<String> = kept.flat_map(|keep| keep.keys().cloned()).collect();
        for figure in figures() {
            named.extend(figure.x.clone());
            for text in [
                Some(&figure.series),
                figure.groups.as_ref(),
                figure.remark.as_ref(),
            ] {
                let parts = text.into_iter().flat_map(|text| text.split('{').skip(1));
                named.extend(parts.filter_map(|part| Some(part.split_once('}')?.0.to_owned())));
            }
        }
        assert!(named.len() > 50);
        assert!(
            named.iter().all(|name| FIELDS.contains(&&**name)),
            "{named:?}"
        );
    }
}
