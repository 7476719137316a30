//! Tables, for the terminal and as Markdown; and numbers as people read them.

pub struct Table {
    pub title: String,
    /// Headings; those of columns with numbers, which are aligned to the right, begin with `>`.
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

/// Wider cells are cut in the terminal.
const CELL_WIDTH: usize = 86;

impl Table {
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Table {
        Table { title: title.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn print(&self, markdown: bool) -> String {
        if markdown { self.markdown() } else { self.terminal() }
    }

    fn terminal(&self) -> String {
        let heads: Vec<_> = self.columns.iter().map(|c| heading(c).to_owned()).collect();
        let mut widths: Vec<_> = heads.iter().map(|h| h.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count()).min(CELL_WIDTH);
            }
        }
        let mut out = format!("{}\n", self.title);
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::from(" ");
            for ((column, width), cell) in self.columns.iter().zip(&widths).zip(row) {
                let cell = cut(cell);
                let cell = if is_number(column) { format!(" {cell:>width$}") } else { format!(" {cell:<width$}") };
                line += &cell;
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = format!("**{}**\n\n", self.title);
        out += &line(self.columns.iter().map(|c| heading(c).to_owned()).collect());
        out += &line(self.columns.iter().map(|c| if is_number(c) { "---:" } else { "---" }.to_owned()).collect());
        for row in &self.rows {
            out += &line(row.iter().map(|c| escape(c)).collect());
        }
        out
    }
}

fn is_number(column: &str) -> bool {
    column.starts_with('>')
}

fn heading(column: &str) -> &str {
    column.trim_start_matches('>')
}

fn cut(cell: &str) -> String {
    if cell.chars().count() <= CELL_WIDTH {
        return cell.to_owned();
    }
    cell.chars().take(CELL_WIDTH - 1).chain(['…']).collect()
}

/// Names hold `<T>` and `|`, which Markdown would take for its own.
fn escape(cell: &str) -> String {
    if cell.contains(['<', '|', '*', '_', '[']) {
        format!("`{}`", cell.replace('|', "\\|").replace('`', "'"))
    } else {
        cell.to_owned()
    }
}

/// `1,234,567`
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.char_indices() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `+1,234`, `-5`, `0`
pub fn change(n: i64) -> String {
    let sign = match n {
        1.. => "+",
        0 => "",
        _ => "-",
    };
    format!("{sign}{}", number(n.unsigned_abs()))
}

/// A part of a whole, in per cent.
pub fn percent(part: i64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1}", part as f64 * 100.0 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!([0, 999, 1000, 655_360].map(number), ["0", "999", "1,000", "655,360"]);
        assert_eq!([-1234, 0, 7].map(change), ["-1,234", "0", "+7"]);
        assert_eq!([percent(1, 3), percent(-1, 2), percent(1, 0)], ["33.3", "-50.0", "-"]);
    }

    fn table() -> Table {
        let mut table = Table::new("Crates", &["crate", ">bytes"]);
        table.row(["rustls".into(), "1,000".into()]);
        table.row(["<A|B>".into(), "7".into()]);
        table
    }

    #[test]
    fn terminal() {
        assert_eq!(table().print(false), "Crates\n  crate  bytes\n  rustls 1,000\n  <A|B>      7\n");
    }

    #[test]
    fn markdown() {
        let want = "**Crates**\n\n| crate | bytes |\n| --- | ---: |\n| rustls | 1,000 |\n| `<A\\|B>` | 7 |\n";
        assert_eq!(table().print(true), want);
    }

    #[test]
    fn long_cells_are_cut_by_characters() {
        assert_eq!(cut(&"ä".repeat(200)).chars().count(), CELL_WIDTH);
    }
}
