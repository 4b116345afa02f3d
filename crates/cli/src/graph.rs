//! Drawing history with characters.
//!
//! `manifest::history::layout` gives each commit a lane and each line to a parent the lane that it runs in. Here this becomes
//! text: two columns per lane, one row per commit, and a row of bends between two commits where a line changes its lane. A
//! line leaves its child's lane just below the child (second parents) and joins its parent's lane just above the parent. A
//! cell of a row of bends has up to four arms, and which arms it has decides its character.

use manifest::history::Graph;

/// The characters to draw with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charset {
    Unicode,
    Ascii,
}

impl Charset {
    /// What this terminal's locale says it can show.
    pub(crate) fn of_locale() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") { Self::Unicode } else { Self::Ascii }
    }

    const fn commit(self) -> char {
        match self {
            Self::Unicode => '●',
            Self::Ascii => '*',
        }
    }

    const fn line(self) -> char {
        self.bend(UP | DOWN)
    }

    const fn bend(self, arms: u8) -> char {
        const UP_DOWN: u8 = UP | DOWN;
        const LEFT_RIGHT: u8 = LEFT | RIGHT;
        match (self, arms) {
            (_, 0) => ' ',
            (Self::Unicode, UP_DOWN | UP | DOWN) => '│',
            (Self::Ascii, UP_DOWN | UP | DOWN) => '|',
            (Self::Unicode, LEFT_RIGHT | LEFT | RIGHT) => '─',
            (Self::Ascii, LEFT_RIGHT | LEFT | RIGHT) => '-',
            (Self::Ascii, _) if arms & UP_DOWN == UP => '\'',
            (Self::Ascii, _) if arms & UP_DOWN == DOWN => '.',
            (Self::Ascii, _) if arms & LEFT_RIGHT == LEFT_RIGHT => '+',
            (Self::Ascii, _) => '|',
            (Self::Unicode, _) => {
                match (arms & UP != 0, arms & DOWN != 0, arms & LEFT != 0, arms & RIGHT != 0) {
                    (true, true, true, true) => '┼',
                    (true, true, false, _) => '├',
                    (true, true, true, false) => '┤',
                    (true, false, true, true) => '┴',
                    (false, _, true, true) => '┬',
                    (true, false, true, false) => '╯',
                    (true, false, false, _) => '╰',
                    (false, _, true, false) => '╮',
                    (false, _, false, _) => '╭',
                }
            }
        }
    }
}

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

/// The drawing of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drawn {
    /// Rows of bends above it.
    pub(crate) above: Vec<String>,
    /// What stands left of it.
    pub(crate) lane: String,
}

/// A drawing of up to this many lanes has the text beside it in one column. A wider one would push it off the screen.
const ALIGNED_LANES: usize = 8;

/// Draws every row.
pub(crate) fn draw(graph: &Graph, charset: Charset) -> Vec<Drawn> {
    // How many lines run in each lane below the current row.
    let mut running = vec![0usize; graph.lanes];
    // Lines by the row in which they end.
    let mut ending: Vec<Vec<usize>> = vec![Vec::new(); graph.rows.len()];
    for (number, row) in graph.rows.iter().enumerate() {
        for edge in &row.edges {
            match edge.row {
                Some(parent) if parent > number => ending[parent].push(edge.lane),
                _ => {}
            }
        }
    }
    let mut drawn = Vec::with_capacity(graph.rows.len());
    let mut leaving: Option<String> = None;
    for (number, row) in graph.rows.iter().enumerate() {
        let mut above: Vec<String> = leaving.take().into_iter().collect();
        // Lines that come from the side join the commit's lane, which nothing else uses.
        let from: Vec<usize> = ending[number].iter().copied().filter(|lane| *lane != row.lane).collect();
        for lane in &ending[number] {
            running[*lane] -= 1;
        }
        if !from.is_empty() {
            let mut bends = Bends::through(&running);
            bends.arm(row.lane, UP | DOWN);
            from.iter().for_each(|lane| bends.join(row.lane, *lane, UP));
            above.push(bends.text(charset));
        }
        let mut lane = commit_row(&running, row.lane, charset);
        if graph.lanes <= ALIGNED_LANES {
            let missing = (graph.lanes * 2 - 1).saturating_sub(lane.chars().count());
            lane.extend(std::iter::repeat_n(' ', missing));
        }
        drawn.push(Drawn { above, lane });

        let below: Vec<usize> = row
            .edges
            .iter()
            .filter(|edge| edge.row.is_none_or(|parent| parent > number))
            .map(|edge| edge.lane)
            .collect();
        let to: Vec<usize> = below.iter().copied().filter(|lane| *lane != row.lane).collect();
        if !to.is_empty() {
            let mut bends = Bends::through(&running);
            bends.arm(row.lane, if below.contains(&row.lane) { UP | DOWN } else { UP });
            to.iter().for_each(|lane| bends.join(row.lane, *lane, DOWN));
            leaving = Some(bends.text(charset));
        }
        below.iter().for_each(|lane| running[*lane] += 1);
    }
    drawn
}

fn commit_row(running: &[usize], commit: usize, charset: Charset) -> String {
    let cell = |(lane, lines): (usize, &usize)| match *lines {
        _ if lane == commit => charset.commit(),
        0 => ' ',
        _ => charset.line(),
    };
    let text: Vec<String> = running.iter().enumerate().map(|one| cell(one).to_string()).collect();
    text.join(" ").trim_end().to_owned()
}

/// A row of bends, two cells per lane.
struct Bends(Vec<u8>);

impl Bends {
    /// Every running line goes straight through.
    fn through(running: &[usize]) -> Self {
        let mut cells = vec![0; running.len() * 2];
        for (lane, lines) in running.iter().enumerate() {
            cells[lane * 2] = if *lines > 0 { UP | DOWN } else { 0 };
        }
        Self(cells)
    }

    fn arm(&mut self, lane: usize, arms: u8) {
        self.0[lane * 2] |= arms;
    }

    /// A line between a commit's lane and another one, where it goes on upward or downward.
    fn join(&mut self, commit: usize, other: usize, direction: u8) {
        let (left, right) = (commit.min(other) * 2, commit.max(other) * 2);
        self.0[left] |= RIGHT;
        self.0[right] |= LEFT;
        self.0[left + 1..right].iter_mut().for_each(|cell| *cell |= LEFT | RIGHT);
        self.arm(other, direction);
    }

    fn text(&self, charset: Charset) -> String {
        self.0.iter().map(|arms| charset.bend(*arms)).collect::<String>().trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cas_core::ObjectId;
    use manifest::history::layout;

    fn picture(commits: &[(u8, &[u8])], charset: Charset) -> String {
        let id = |n: u8| ObjectId::from_bytes([n; 32]);
        let graph =
            layout(commits.iter().map(|(n, parents)| (id(*n), parents.iter().map(|n| id(*n)).collect())));
        let mut lines = Vec::new();
        for (drawn, (n, _)) in draw(&graph, charset).into_iter().zip(commits) {
            lines.extend(drawn.above);
            lines.push(format!("{} {n}", drawn.lane.trim_end()));
        }
        lines.join("\n")
    }

    #[test]
    fn a_branch() {
        let commits: &[(u8, &[u8])] = &[(4, &[2]), (3, &[1]), (2, &[1]), (1, &[0]), (0, &[])];
        assert_eq!(picture(commits, Charset::Unicode), "● 4\n│ ● 3\n● │ 2\n├─╯\n● 1\n● 0");
        assert_eq!(picture(commits, Charset::Ascii), "* 4\n| * 3\n* | 2\n|-'\n* 1\n* 0");
    }

    #[test]
    fn several_lines_meet_and_one_passes_by() {
        // 5, 4 and 3 come from 1; 2 in its own lane goes on to 0.
        let commits: &[(u8, &[u8])] = &[(5, &[1]), (4, &[0]), (3, &[1]), (1, &[0]), (0, &[])];
        assert_eq!(picture(commits, Charset::Unicode), "● 5\n│ ● 4\n│ │ ● 3\n├─┼─╯\n● │ 1\n├─╯\n● 0");
        let star: &[(u8, &[u8])] = &[(3, &[0]), (2, &[0]), (1, &[0]), (0, &[])];
        assert_eq!(picture(star, Charset::Unicode), "● 3\n│ ● 2\n│ │ ● 1\n├─┴─╯\n● 0");
        assert_eq!(picture(star, Charset::Ascii), "* 3\n| * 2\n| | * 1\n|-'-'\n* 0");
    }

    #[test]
    fn two_parents_and_a_parent_that_is_not_drawn() {
        let merge: &[(u8, &[u8])] = &[(3, &[1, 2]), (2, &[0]), (1, &[0]), (0, &[])];
        assert_eq!(picture(merge, Charset::Unicode), "● 3\n├─╮\n│ ● 2\n● │ 1\n├─╯\n● 0");
        let cut: &[(u8, &[u8])] = &[(3, &[9]), (2, &[1]), (1, &[])];
        assert_eq!(picture(cut, Charset::Unicode), "● 3\n│ ● 2\n│ ● 1");
    }
}
