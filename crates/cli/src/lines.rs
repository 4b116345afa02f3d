//! What changed in a text, line by line, as `diff -u` shows it.
//!
//! What both texts begin and end with is the same. Of the rest the longest common subsequence is found with a table, which grows with the
//! product of both lengths; where that would be too large, the rest counts as replaced whole.

use std::ops::Range;

/// The most entries of the table: 16 MiB.
const LARGEST: usize = 4 << 20;
/// So many lines that are the same are shown around a change.
const AROUND: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    Same,
    Removed,
    Added,
}

type Line<'a> = (Mark, &'a str);

/// The lines that changed with those around them, under a heading each that says where they are. Nothing if both texts are the same.
pub(crate) fn unified(before: &str, after: &str) -> Vec<String> {
    let (a, b): (Vec<_>, Vec<_>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let lines = compared(&a, &b);
    let mut shown = Vec::new();
    let (mut at, mut old, mut new) = (0, 0, 0);
    for part in parts(&lines) {
        let (skipped_old, skipped_new) = count(&lines[at..part.start]);
        let (in_old, in_new) = count(&lines[part.clone()]);
        (old, new) = (old + skipped_old, new + skipped_new);
        // Lines count from 1; of a side that has none of them, the one before is named.
        let place = |before: usize, here: usize| format!("{},{here}", before + usize::from(here > 0));
        shown.push(format!("@@ -{} +{} @@", place(old, in_old), place(new, in_new)));
        shown.extend(lines[part.clone()].iter().flat_map(said));
        (at, old, new) = (part.end, old + in_old, new + in_new);
    }
    shown
}

fn said((mark, text): &Line<'_>) -> Vec<String> {
    let sign = match mark {
        Mark::Same => ' ',
        Mark::Removed => '-',
        Mark::Added => '+',
    };
    let whole = text.strip_suffix('\n');
    let line = format!("{sign}{}", whole.unwrap_or(text));
    if whole.is_some() { vec![line] } else { vec![line, "\\ No newline at end of file".to_owned()] }
}

/// How many lines of each text these are.
fn count(lines: &[Line<'_>]) -> (usize, usize) {
    let without = |mark: Mark| lines.iter().filter(|(its, _)| *its != mark).count();
    (without(Mark::Added), without(Mark::Removed))
}

/// Where something changed, with what is around it; what touches is one.
fn parts(lines: &[Line<'_>]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, (mark, _))| *mark != Mark::Same) {
        let (start, end) = (at.saturating_sub(AROUND), (at + AROUND + 1).min(lines.len()));
        match parts.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => parts.push(start..end),
        }
    }
    parts
}

fn compared<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Line<'a>> {
    let head = a.iter().zip(b).take_while(|(one, other)| one == other).count();
    let (rest_a, rest_b) = (&a[head..], &b[head..]);
    let tail = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(one, other)| one == other).count();
    let (middle_a, middle_b) = (&rest_a[..rest_a.len() - tail], &rest_b[..rest_b.len() - tail]);
    let mut lines = marked(Mark::Same, &a[..head]);
    lines.extend(middle(middle_a, middle_b));
    lines.extend(marked(Mark::Same, &a[a.len() - tail..]));
    lines
}

fn middle<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Line<'a>> {
    let width = b.len() + 1;
    if (a.len() + 1).saturating_mul(width) > LARGEST {
        return [marked(Mark::Removed, a), marked(Mark::Added, b)].concat();
    }
    // At i, j: how long the longest common subsequence of a[i..] and b[j..] is.
    let mut longest = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * width + j] = if a[i] == b[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            lines.push((Mark::Same, a[i]));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            lines.push((Mark::Removed, a[i]));
            i += 1;
        } else {
            lines.push((Mark::Added, b[j]));
            j += 1;
        }
    }
    lines.extend(marked(Mark::Removed, &a[i..]));
    lines.extend(marked(Mark::Added, &b[j..]));
    lines
}

fn marked<'a>(mark: Mark, lines: &[&'a str]) -> Vec<Line<'a>> {
    lines.iter().map(|line| (mark, *line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, after: &str) -> String {
        unified(before, after).join("\n")
    }

    #[test]
    fn what_is_the_same_is_not_shown() {
        assert_eq!(shown("a\nb\n", "a\nb\n"), "");
        assert_eq!(shown("", ""), "");
    }

    #[test]
    fn a_line_that_changed_stands_among_its_neighbours() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = before.replace("5\n", "five\nmore\n");
        assert_eq!(shown(before, &after), "@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+more\n 6\n 7\n 8");
    }

    #[test]
    fn changes_far_from_each_other_have_a_heading_each() {
        let before: String = (1..=30).map(|number| format!("{number}\n")).collect();
        let after = before.replacen("2\n", "two\n", 1).replace("29\n", "");
        let headings: Vec<_> =
            unified(&before, &after).into_iter().filter(|line| line.starts_with("@@")).collect();
        assert_eq!(headings, ["@@ -1,5 +1,5 @@", "@@ -26,5 +26,4 @@"]);
    }

    #[test]
    fn a_file_that_came_or_went_has_all_of_its_lines() {
        assert_eq!(shown("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b");
        assert_eq!(shown("a\n", ""), "@@ -1,1 +0,0 @@\n-a");
    }

    #[test]
    fn an_end_without_a_newline_is_a_difference() {
        assert_eq!(shown("a\n", "a"), "@@ -1,1 +1,1 @@\n-a\n+a\n\\ No newline at end of file");
    }

    #[test]
    fn what_is_too_large_for_the_table_is_replaced_whole() {
        let text = |sign: char| -> String { (0..3000).map(|number| format!("{sign}{number}\n")).collect() };
        assert_eq!(unified(&text('a'), &text('b')).len(), 6001);
    }
}
