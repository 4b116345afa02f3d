//! CRIU's list of the pages that a process had when it was dumped without them. The input is such a list.

use std::path::Path;

use memory_path::parent::Plan;
use memory_path::{PAGE, Task, difference, pages_in};

pub(crate) fn run(bytes: &[u8]) {
    let task = Task(300);
    let path = Path::new("pagemap-300.img");
    let Ok((plan, in_file)) = Plan::of_list(path, bytes, task, &[task]) else { return };
    let (all, left_out, counts) = (plan.pages(), plan.left_out(), plan.counts());
    // In order and apart, and each page is in one of the two places.
    assert!(all.windows(2).all(|pair| pair[0].end < pair[1].start));
    assert!(all.iter().all(|run| run.start % PAGE == 0 && run.start < run.end));
    assert!(difference(&left_out, &all).is_empty());
    assert_eq!(counts.from_sink, pages_in(&left_out));
    assert_eq!(counts.from_images * PAGE, in_file);
    assert_eq!(counts.from_images + counts.from_sink, pages_in(&all));
    assert!(Plan::check_counts([&plan], counts.from_sink).is_ok());
    // Of a task that nobody has looked at nothing may be left out.
    assert_eq!(Plan::of_list(path, bytes, task, &[]).is_ok(), left_out.is_empty());
}
