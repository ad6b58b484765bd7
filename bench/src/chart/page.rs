//! The HTML page: one self-contained file with sections of text, commands, charts and tables.

use super::{Chart, Table, written};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");

/// The page.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Its heading.
    pub title: String,
    /// What was measured where: machine, kernel, date.
    pub facts: Vec<(String, String)>,
    /// Paragraphs before the first section.
    pub intro: Vec<String>,
    /// What the page shows.
    pub sections: Vec<Section>,
}

/// A part of the page with an entry in its table of contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Names the section in links.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What it shows, in order; figures that follow each other stand side by side.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// What the next blocks are about.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// How to run this part alone.
    Command(String),
    /// A chart with its figures.
    Figure(Chart),
    /// Figures alone.
    Table {
        /// What the table shows.
        caption: String,
        /// The table.
        table: Table,
    },
    /// What a reader must know before trusting what follows.
    Warning(String),
}

impl Page {
    /// The page as one HTML file that needs nothing else.
    ///
    /// # Errors
    /// A chart that cannot be drawn.
    pub fn html(&self) -> anyhow::Result<String> {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    link rel="icon" href="data:,";
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    (self.head())
                    (self.contents())
                    main { @for section in &self.sections { (section.html()?) } }
                }
            }
        };
        Ok(written(&page.into_string()))
    }

    /// Every chart of the page.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.filter_map(|block| match block {
            Block::Figure(chart) => Some(chart),
            _ => None,
        })
    }

    fn head(&self) -> Markup {
        html! {
            header {
                h1 { (self.title) }
                @for text in &self.intro { p { (text) } }
                @if !self.facts.is_empty() {
                    dl class="facts" {
                        @for (name, value) in &self.facts {
                            div { dt { (name) } dd { (value) } }
                        }
                    }
                }
            }
        }
    }

    fn contents(&self) -> Markup {
        html! {
            @if self.sections.len() > 1 {
                nav aria-label="Contents" {
                    ol {
                        @for section in &self.sections {
                            li { a href={ "#" (section.id) } { (section.title) } }
                        }
                    }
                }
            }
        }
    }
}

impl Section {
    fn html(&self) -> anyhow::Result<Markup> {
        // Figures side by side are one child of the section, everything else is by itself.
        let both_figures =
            |a: &Block, b: &Block| matches!((a, b), (Block::Figure(_), Block::Figure(_)));
        Ok(html! {
            section id=(self.id) {
                h2 { a href={ "#" (self.id) } { (self.title) } }
                @for run in self.blocks.chunk_by(both_figures) {
                    @if let [Block::Figure(_), ..] = run {
                        div class="figures" { @for block in run { (block.html()?) } }
                    } @else {
                        @for block in run { (block.html()?) }
                    }
                }
            }
        })
    }
}

impl Block {
    fn html(&self) -> anyhow::Result<Markup> {
        Ok(match self {
            Self::Heading(text) => html! { h3 { (text) } },
            Self::Text(text) => html! { p { (text) } },
            Self::Command(command) => html! {
                pre class="command" tabindex="0" { code { (command) } }
            },
            Self::Figure(chart) => figure(chart)?,
            Self::Table { caption, table } => table.html(Some(caption), caption),
            Self::Warning(text) => html! {
                p class="warning" role="note" { strong { "Note: " } (text) }
            },
        })
    }
}

/// A chart, its notes, and the figures it was drawn from.
fn figure(chart: &Chart) -> anyhow::Result<Markup> {
    let table = chart.table();
    Ok(html! {
        figure id=(chart.dom_id()) aria-label=(chart.title) {
            div class="chart" role="img" aria-label=(chart.title) { (PreEscaped(chart.svg()?)) }
            @if !chart.notes.is_empty() {
                figcaption { @for note in &chart.notes { p { (note) } } }
            }
            @if !table.rows.is_empty() { (table.html(None, &chart.title)) }
        }
    })
}

impl Table {
    /// In a box that scrolls by itself, so that the page never gets wider than the screen.
    fn html(&self, caption: Option<&str>, name: &str) -> Markup {
        let words: Vec<bool> = (0..self.header.len())
            .map(|column| self.is_of_words(column))
            .collect();
        let class = |column: usize| {
            let of_words = words.get(column).copied().unwrap_or(false);
            of_words.then_some("words")
        };
        html! {
            div class="table" role="region" aria-label=(name) tabindex="0" {
                table {
                    @if let Some(caption) = caption { caption { span { (caption) } } }
                    thead { tr { @for (column, name) in self.header.iter().enumerate() {
                        th scope="col" class=[class(column)] { (name) }
                    } } }
                    tbody {
                        @for row in &self.rows { tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 {
                                    th scope="row" { span { (cell) } }
                                } @else if let Some(class) = class(column) {
                                    td class=(class) { span { (cell) } }
                                } @else {
                                    td { (number_html(cell)) }
                                }
                            }
                        } }
                    }
                }
            }
        }
    }

    /// Whether a column beside the first has words, which read from the left and may break.
    fn is_of_words(&self, column: usize) -> bool {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let mut cells = cells.filter(|cell| !cell.is_empty()).peekable();
        column > 0
            && cells.peek().is_some()
            && cells.all(|cell| cell.starts_with(char::is_alphabetic))
    }
}

/// What stands in brackets behind a number matters less than the number.
fn number_html(cell: &str) -> Markup {
    match cell.split_once(" (") {
        Some((number, rest)) if !number.starts_with(char::is_alphabetic) => {
            html! { (number) " " small { "(" (rest) } }
        }
        _ => html! { (cell) },
    }
}
