//! Where each commit goes in a drawing of history: one row per commit, in lanes.
//!
//! Commits come as [`walk`](super::walk()) gives them, children before parents. A child's line runs straight down in the
//! child's own lane and bends only in the row of its parent, so a thread keeps its lane for as long as it is on its own. A
//! parent takes the leftmost lane of the lines that lead to it; the other lanes are free again below it. A commit that no
//! line leads to starts a lane of its own, the leftmost free one.
//!
//! The drawing is data: a terminal and a browser draw it in their own ways. It takes time in proportion to commits and
//! edges (with the logarithm of the lanes); a line is stored once, not once per row that it crosses.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use cas_core::ObjectId;

/// A drawing of history.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Graph {
    /// One per commit, from top to bottom.
    pub rows: Vec<Row>,
    /// How many lanes there are at most.
    pub lanes: usize,
}

/// One commit's place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The commit.
    pub id: ObjectId,
    /// Its lane; 0 is the leftmost.
    pub lane: usize,
    /// Lines to its parents, in the order of parents.
    pub edges: Vec<Edge>,
}

/// A line from a commit down to a parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Where it leads.
    pub parent: ObjectId,
    /// The lane in which it runs, from just below the child to just above the parent.
    pub lane: usize,
    /// The parent's row, or `None` if the parent is not drawn; the line then runs off the bottom.
    pub row: Option<usize>,
}

#[derive(Default)]
struct Lanes {
    free: BinaryHeap<Reverse<usize>>,
    count: usize,
}

impl Lanes {
    fn take(&mut self) -> usize {
        match self.free.pop() {
            Some(Reverse(lane)) => lane,
            None => {
                self.count += 1;
                self.count - 1
            }
        }
    }

    fn free(&mut self, lane: usize) {
        self.free.push(Reverse(lane));
    }
}

/// Lays out commits that come with their parents. Commits that could not be read have no parents.
pub fn layout(commits: impl IntoIterator<Item = (ObjectId, Vec<ObjectId>)>) -> Graph {
    let mut graph = Graph::default();
    let mut lanes = Lanes::default();
    // For each commit that is still to come: the lines that lead to it, as lane and place (row and number of the edge).
    let mut waiting: HashMap<ObjectId, Vec<(usize, usize, usize)>> = HashMap::new();
    let mut drawn: HashMap<ObjectId, usize> = HashMap::new();
    for (id, parents) in commits {
        let row = graph.rows.len();
        if drawn.contains_key(&id) {
            continue;
        }
        drawn.insert(id, row);
        let lines = waiting.remove(&id).unwrap_or_default();
        // Several lines may share a lane: a line that comes from the side joins one that is there.
        let mut ending: Vec<usize> = lines.iter().map(|(lane, ..)| *lane).collect();
        ending.sort_unstable();
        ending.dedup();
        for (_, child, edge) in lines {
            graph.rows[child].edges[edge].row = Some(row);
        }
        let lane = match ending.split_first() {
            Some((leftmost, others)) => {
                others.iter().for_each(|lane| lanes.free(*lane));
                *leftmost
            }
            None => lanes.take(),
        };
        let mut lane_is_used = false;
        let mut edges = Vec::with_capacity(parents.len());
        for parent in parents {
            if let Some(above) = drawn.get(&parent) {
                // Out of order: a line up, which takes no lane.
                edges.push(Edge { parent, lane, row: Some(*above) });
                continue;
            }
            let lines = waiting.entry(parent).or_default();
            let line = if !lane_is_used {
                lane_is_used = true;
                lane
            } else {
                lines.first().map_or_else(|| lanes.take(), |(lane, ..)| *lane)
            };
            lines.push((line, row, edges.len()));
            edges.push(Edge { parent, lane: line, row: None });
        }
        if !lane_is_used {
            lanes.free(lane);
        }
        graph.rows.push(Row { id, lane, edges });
    }
    graph.lanes = lanes.count;
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn id(n: u32) -> ObjectId {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        ObjectId::from_bytes(bytes)
    }

    /// Commits as numbers, with their parents.
    fn draw(commits: &[(u32, &[u32])]) -> Graph {
        layout(commits.iter().map(|(n, parents)| (id(*n), parents.iter().map(|n| id(*n)).collect())))
    }

    fn lanes(graph: &Graph) -> Vec<usize> {
        graph.rows.iter().map(|row| row.lane).collect()
    }

    /// Edges as (from row, lane, to row).
    fn edges(graph: &Graph) -> Vec<(usize, usize, Option<usize>)> {
        let row = |(number, row): (usize, &Row)| {
            row.edges.iter().map(|edge| (number, edge.lane, edge.row)).collect::<Vec<_>>()
        };
        graph.rows.iter().enumerate().flat_map(row).collect()
    }

    /// No two lines, and no line and a foreign commit, are at the same place.
    fn assert_no_crossing(graph: &Graph) {
        let mut taken: HashMap<(usize, usize), ObjectId> = HashMap::new();
        for (number, row) in graph.rows.iter().enumerate() {
            assert!(taken.insert((number, row.lane), row.id).is_none_or(|id| id == row.id));
        }
        for (number, row) in graph.rows.iter().enumerate() {
            for edge in &row.edges {
                for between in number + 1..edge.row.unwrap_or(graph.rows.len()) {
                    let owner = taken.entry((between, edge.lane)).or_insert(edge.parent);
                    assert_eq!(*owner, edge.parent, "row {between}, lane {}", edge.lane);
                }
            }
        }
    }

    #[test]
    fn a_line() {
        let graph = draw(&[(3, &[2]), (2, &[1]), (1, &[])]);
        assert_eq!((lanes(&graph), graph.lanes), (vec![0, 0, 0], 1));
        assert_eq!(edges(&graph), [(0, 0, Some(1)), (1, 0, Some(2))]);
    }

    #[test]
    fn a_branch_keeps_its_lane_down_to_the_common_parent() {
        let graph = draw(&[(5, &[3]), (4, &[2]), (3, &[1]), (2, &[1]), (1, &[0]), (0, &[])]);
        assert_eq!(lanes(&graph), [0, 1, 0, 1, 0, 0]);
        assert_eq!(
            edges(&graph),
            [(0, 0, Some(2)), (1, 1, Some(3)), (2, 0, Some(4)), (3, 1, Some(4)), (4, 0, Some(5))]
        );
        assert_no_crossing(&graph);
    }

    #[test]
    fn several_heads_reuse_lanes_that_became_free() {
        // Three branches of 1, one after the other, and two unrelated histories side by side below.
        let graph =
            draw(&[(8, &[1]), (7, &[1]), (6, &[1]), (1, &[]), (5, &[3]), (4, &[2]), (3, &[]), (2, &[])]);
        assert_eq!((lanes(&graph), graph.lanes), (vec![0, 1, 2, 0, 0, 1, 0, 1], 3));
        assert_no_crossing(&graph);
    }

    #[test]
    fn a_commit_with_two_parents() {
        let graph = draw(&[(4, &[2, 3]), (3, &[1]), (2, &[1]), (1, &[])]);
        assert_eq!(lanes(&graph), [0, 1, 0, 0]);
        assert_eq!(edges(&graph), [(0, 0, Some(2)), (0, 1, Some(1)), (1, 1, Some(3)), (2, 0, Some(3))]);
        // The second parent has a line already: it is joined.
        let graph = draw(&[(5, &[3]), (4, &[2, 3]), (3, &[]), (2, &[])]);
        assert_eq!(edges(&graph), [(0, 0, Some(2)), (1, 1, Some(3)), (1, 0, Some(2))]);
        assert_no_crossing(&graph);
    }

    #[test]
    fn parents_that_are_not_drawn_keep_their_line_to_the_bottom() {
        let graph = draw(&[(3, &[9]), (2, &[1]), (1, &[])]);
        assert_eq!(lanes(&graph), [0, 1, 1]);
        assert_eq!(edges(&graph)[0], (0, 0, None));
        assert_no_crossing(&graph);
    }

    #[test]
    fn a_parent_that_came_too_early_does_no_harm() {
        let graph = draw(&[(1, &[]), (2, &[1]), (1, &[])]);
        assert_eq!(edges(&graph), [(1, 0, Some(0))]);
        assert_eq!(graph.rows.len(), 2);
    }

    fn time_of(commits: Vec<(ObjectId, Vec<ObjectId>)>) -> (Graph, Duration) {
        let start = Instant::now();
        let graph = layout(commits);
        (graph, start.elapsed())
    }

    #[test]
    fn ten_thousand_commits_take_linear_time() {
        let line =
            |n: u32| (0..n).rev().map(|k| (id(k), k.checked_sub(1).map(id).into_iter().collect())).collect();
        // The worst for lanes: every commit is a head of its own, and all have one parent.
        let star =
            |n: u32| (1..n).rev().map(|k| (id(k), vec![id(0)])).chain([(id(0), vec![])]).collect::<Vec<_>>();
        let (graph, took) = time_of(line(10_000));
        assert_eq!((graph.rows.len(), graph.lanes), (10_000, 1));
        let (wide, took_wide) = time_of(star(10_000));
        assert_eq!((wide.rows.len(), wide.lanes), (10_000, 9_999));
        assert_eq!(wide.rows.iter().map(|row| row.edges.len()).sum::<usize>(), 9_999);
        // Each line crosses up to 10^4 rows: drawing them row by row would be 5 * 10^7 steps.
        assert!(took + took_wide < Duration::from_secs(1), "{took:?} {took_wide:?}");
    }
}
