//! Charts as SVG, and one self-contained page that shows them with their tables.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `drawing` | what a chart is made of, and the SVG of it |
//! | `span` | the range and the ticks of an axis |
//! | `number` | numbers as people read them |
//! | `text` | how wide a text is, where it breaks |
//! | `look` | colour, marker, dash and hatch of a series |
//! | `frame` | where everything of a chart stands |
//! | `axes`, `marks`, `legend` | the parts of a chart, drawn |
//! | `page` | the HTML page |

mod axes;
mod drawing;
mod frame;
mod legend;
mod look;
mod marks;
pub mod number;
pub mod page;
mod span;
mod text;

pub use drawing::{Axis, Chart, Kind, Mark, Point, Scale, Series};
pub use page::{Block, Figure, Page, Section, Table};
