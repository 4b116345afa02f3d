//! An ordinary dump, made of one without pages and of a sink: what any CRIU restores.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use memory_path::parent::Plan;
use memory_path::{PAGE_BYTES, Run, Task};

/// Puts all pages of a task into the images, in place of what CRIU has written of it. `fetch` gives those that were left out; the address of
/// one that it has not is the error, and leaves the images as they were.
pub(crate) fn assemble(
    plan: &Plan,
    images: &Path,
    fetch: &mut dyn FnMut(Task, u64, &mut [u8; PAGE_BYTES]) -> bool,
) -> Result<(), u64> {
    let (list, file) = (images.join(format!("pagemap-{}.img", plan.task())), plan.pages_file(images));
    let written = fs::read(&file).expect("CRIU has written it");
    let mut written = written.chunks_exact(PAGE_BYTES);
    let left_out: HashSet<u64> = plan.left_out().iter().flat_map(Run::addresses).collect();
    let mut pages = Vec::new();
    for address in plan.pages().iter().flat_map(Run::addresses) {
        let mut page = [0; PAGE_BYTES];
        if left_out.contains(&address) {
            if !fetch(plan.task(), address, &mut page) {
                return Err(address);
            }
        } else {
            page.copy_from_slice(written.next().expect("its length was compared"));
        }
        pages.extend_from_slice(&page);
    }
    let old = fs::read(&list).expect("a list");
    // Two magic numbers and the first entry stay as they are.
    let head = 12 + usize::try_from(u32::from_le_bytes(old[8..12].try_into().unwrap())).unwrap();
    let mut new = old[..head].to_vec();
    for run in plan.pages() {
        // Address, how many for old readers, that they are in the file, how many.
        let count = run.pages();
        let entry = [(1, run.start), (2, count.min(0x7fff_ffff)), (4, 4), (5, count)];
        let entry: Vec<u8> =
            entry.into_iter().flat_map(|(tag, value)| [varint(tag << 3), varint(value)].concat()).collect();
        new.extend(u32::try_from(entry.len()).unwrap().to_le_bytes());
        new.extend(entry);
    }
    fs::write(&file, pages).expect("the pages");
    fs::write(&list, new).expect("the list");
    Ok(())
}

/// A number as protobuf writes it.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}
