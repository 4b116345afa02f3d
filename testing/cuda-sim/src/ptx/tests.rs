//! Kernels of the shapes that NVRTC emits, written by hand.

use proptest::prelude::*;

use super::{Fault, Illegal, Launch, Memory, Module, read_le, write_le};

/// Memory with one allocation in it, which is enough for a kernel under test.
struct Flat {
    start: u64,
    bytes: Vec<u8>,
}

const START: u64 = 0x7f00_0000_0000;

impl Flat {
    fn new(size: usize) -> Self {
        Self { start: START, bytes: vec![0; size] }
    }

    fn of_f32(values: &[f32]) -> Self {
        Self { start: START, bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect() }
    }

    fn f32(&self, at: usize) -> f32 {
        f32::from_le_bytes(self.bytes[at * 4..at * 4 + 4].try_into().unwrap())
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.bytes[at * 4..at * 4 + 4].try_into().unwrap())
    }
}

impl Memory for Flat {
    fn load(&mut self, address: u64, size: usize) -> Result<u64, Illegal> {
        let at = address.checked_sub(self.start).and_then(|at| usize::try_from(at).ok()).ok_or(Illegal)?;
        read_le(&self.bytes, at, size).ok_or(Illegal)
    }

    fn store(&mut self, address: u64, size: usize, value: u64) -> Result<(), Illegal> {
        let at = address.checked_sub(self.start).and_then(|at| usize::try_from(at).ok()).ok_or(Illegal)?;
        write_le(&mut self.bytes, at, size, value).ok_or(Illegal)
    }
}

/// A module around a body, with the usual registers.
fn module(head: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{head}\n{{\n.reg .pred %p<8>;\n.reg .b16 %rs<8>;\n.reg .f32 %f<16>;\n\
         .reg .b32 %r<16>;\n.reg .f64 %fd<8>;\n.reg .b64 %rd<16>;\n{body}\n}}\n"
    )
}

fn arguments(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.resize(bytes.len().next_multiple_of(part.len()), 0);
        bytes.extend_from_slice(part);
    }
    bytes
}

fn run(text: &str, blocks: u32, threads: u32, arguments: &[u8], memory: &mut Flat) -> Result<(), Fault> {
    let module = Module::parse(text).unwrap();
    let entry = *module.entries().values().next().unwrap();
    let launch = Launch {
        blocks: [blocks, 1, 1],
        threads: [threads, 1, 1],
        dynamic_shared: 4096,
        arguments,
        globals: &vec![memory.start; module.globals().len()],
        budget: 100_000_000,
        stop: None,
    };
    module.launch(entry, &launch, memory)
}

/// `i = blockIdx.x * blockDim.x + threadIdx.x` in %r4, and out of the way beyond %r5.
const INDEX: &str = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;\n\
                     setp.ge.s32 %p1, %r4, %r5; @%p1 bra $L_end;\n";

fn fill() -> String {
    module(
        ".visible .entry fill(.param .u64 a, .param .f32 b, .param .u32 c)",
        &format!(
            "ld.param.u64 %rd1, [a]; ld.param.f32 %f1, [b]; ld.param.u32 %r5, [c];\n{INDEX}\
             cvta.to.global.u64 %rd2, %rd1; mul.wide.s32 %rd3, %r4, 4; add.s64 %rd4, %rd2, %rd3;\n\
             st.global.f32 [%rd4], %f1;\n$L_end: ret;"
        ),
    )
}

#[test]
fn a_fill_stays_in_its_bounds() {
    let mut memory = Flat::new(4 * 100);
    let parameters = arguments(&[&START.to_le_bytes(), &1.5_f32.to_le_bytes(), &90_u32.to_le_bytes()]);
    run(&fill(), 4, 32, &parameters, &mut memory).unwrap();
    assert_eq!((memory.f32(0), memory.f32(89), memory.f32(90)), (1.5, 1.5, 0.0));
}

#[test]
fn a_grid_stride_loop_adds_up() {
    let text = module(
        ".visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u32 n)",
        "ld.param.f32 %f1, [a]; ld.param.u64 %rd1, [x]; ld.param.u32 %r5, [n];\n\
         mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;\n\
         mov.u32 %r6, %nctaid.x; mul.lo.s32 %r6, %r6, %r2;\n\
         $L_loop: setp.ge.s32 %p1, %r4, %r5; @%p1 bra $L_end;\n\
         mad.wide.s32 %rd2, %r4, 4, %rd1; ld.global.f32 %f2, [%rd2]; fma.rn.f32 %f3, %f1, %f2, 0f3F800000; st.global.f32 [%rd2], %f3;\n\
         add.s32 %r4, %r4, %r6; bra.uni $L_loop;\n$L_end: ret;",
    );
    let mut memory = Flat::of_f32(&(0_u16..1000).map(f32::from).collect::<Vec<_>>());
    run(
        &text,
        3,
        64,
        &arguments(&[&2.0_f32.to_le_bytes(), &START.to_le_bytes(), &1000_u32.to_le_bytes()]),
        &mut memory,
    )
    .unwrap();
    assert!(
        (0_u16..1000)
            .all(|at| (memory.f32(usize::from(at)) - (f32::from(at) * 2.0 + 1.0)).abs() < f32::EPSILON)
    );
}

#[test]
fn threads_meet_at_barriers() {
    // the sum of a block by halves in shared memory
    let text = module(
        ".extern .shared .align 16 .b8 s[];\n.visible .entry reduce(.param .u64 x)",
        "ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.f32 %f1, [%rd2];\n\
         shl.b32 %r3, %r1, 2; mov.u32 %r4, s; add.s32 %r5, %r4, %r3; st.shared.f32 [%r5], %f1; bar.sync 0;\n\
         $L_loop: shr.u32 %r2, %r2, 1; setp.eq.s32 %p1, %r2, 0; @%p1 bra $L_end;\n\
         setp.ge.u32 %p2, %r1, %r2; @%p2 bra $L_skip;\n\
         shl.b32 %r6, %r2, 2; add.s32 %r7, %r5, %r6; ld.shared.f32 %f2, [%r7]; ld.shared.f32 %f3, [%r5]; add.f32 %f4, %f2, %f3; st.shared.f32 [%r5], %f4;\n\
         $L_skip: bar.sync 0; bra.uni $L_loop;\n\
         $L_end: ld.shared.f32 %f5, [s]; st.global.f32 [%rd2], %f5; ret;",
    );
    let mut memory = Flat::of_f32(&(0_u16..256).map(f32::from).collect::<Vec<_>>());
    run(&text, 1, 256, &START.to_le_bytes(), &mut memory).unwrap();
    assert!((0..256).all(|at| (memory.f32(at) - 32640.0).abs() < f32::EPSILON));
}

#[test]
fn lanes_exchange_and_vote() {
    let text = module(
        ".visible .entry warp(.param .u64 x)",
        "ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1; mov.u32 %r2, %r1;\n\
         shfl.sync.down.b32 %r3|%p1, %r2, 16, 31, -1; add.s32 %r2, %r2, %r3; shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\n\
         setp.lt.u32 %p2, %r1, 4; vote.sync.ballot.b32 %r4, %p2, -1; add.s32 %r5, %r3, %r4; @%p1 add.s32 %r5, %r5, 1000; st.global.u32 [%rd2], %r5; ret;",
    );
    let mut memory = Flat::new(4 * 32);
    run(&text, 1, 32, &START.to_le_bytes(), &mut memory).unwrap();
    // lane 0: lane 1 has 1 + 17, four lanes voted yes, its own source was in range
    assert_eq!((memory.i32(0), memory.i32(31)), (18 + 15 + 1000, 30 + 30 + 15));
}

#[test]
fn functions_are_called_and_locals_are_their_own() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .func (.param .b32 back) twice(.param .b32 in)\n{\n.reg .b32 %r<3>; .local .align 8 .b8 depot[16]; .reg .b64 %rd<3>;\n\
        ld.param.u32 %r1, [in]; mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; st.u32 [%rd2+4], %r1; ld.u32 %r2, [%rd2+4]; add.s32 %r2, %r2, %r1;\n\
        st.param.b32 [back+0], %r2; ret;\n}\n\
        .visible .entry main(.param .u64 x)\n{\n.reg .b32 %r<3>; .reg .b64 %rd<3>; ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x;\n\
        { .param .b32 param0; st.param.b32 [param0+0], %r1; .param .b32 retval0; call.uni (retval0), twice, (param0); ld.param.b32 %r2, [retval0+0]; }\n\
        mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r2; ret;\n}\n";
    let mut memory = Flat::new(4 * 8);
    run(text, 1, 8, &START.to_le_bytes(), &mut memory).unwrap();
    assert_eq!((memory.i32(1), memory.i32(7)), (2, 14));
}

#[test]
fn vectors_atomics_and_wide_arithmetic() {
    let text = module(
        ".visible .entry mix(.param .u64 x)",
        "ld.param.u64 %rd1, [x]; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1]; add.cc.u32 %r5, %r1, %r2; addc.u32 %r6, %r3, %r4;\n\
         st.global.v2.u32 [%rd1+16], {%r5, %r6}; atom.global.add.u32 %r7, [%rd1+24], 5; red.global.max.s32 [%rd1+28], 9;\n\
         mov.b64 %rd2, {%r5, %r6}; mov.b64 {%r8, %r9}, %rd2; st.global.u32 [%rd1+32], %r9; cvt.rn.f32.s32 %f1, %r6; ex2.approx.f32 %f2, %f1; cvt.rzi.s32.f32 %r10, %f2; st.global.u32 [%rd1+36], %r10; ret;",
    );
    let mut memory = Flat::new(40);
    memory.bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    memory.bytes[4] = 1;
    memory.bytes[8] = 2;
    memory.bytes[12] = 3;
    run(&text, 1, 1, &START.to_le_bytes(), &mut memory).unwrap();
    assert_eq!((4..10).map(|at| memory.i32(at)).collect::<Vec<_>>(), [0, 6, 5, 9, 6, 64]);
}

#[test]
fn bad_addresses_end_the_launch() {
    let mut memory = Flat::new(4 * 10);
    let beyond = arguments(&[&START.to_le_bytes(), &1.0_f32.to_le_bytes(), &11_u32.to_le_bytes()]);
    let fault = run(&fill(), 1, 32, &beyond, &mut memory).unwrap_err();
    assert_eq!(
        (fault.code(), fault),
        (700, Fault::IllegalAddress { kernel: "fill".into(), address: START + 40 })
    );
    let odd = arguments(&[&(START + 2).to_le_bytes(), &1.0_f32.to_le_bytes(), &1_u32.to_le_bytes()]);
    assert_eq!(run(&fill(), 1, 32, &odd, &mut memory).unwrap_err().code(), 716);
}

#[test]
fn endless_loops_and_traps_end() {
    let mut memory = Flat::new(4);
    assert_eq!(run(&module(".entry e()", "$L: bra $L;"), 1, 1, &[], &mut memory).unwrap_err().code(), 702);
    assert_eq!(run(&module(".entry e()", "trap;"), 1, 1, &[], &mut memory).unwrap_err().code(), 719);
    // half of the threads wait at a barrier that the other half never reaches, because it waits at another one
    let split =
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @%p1 bra $L; bar.sync 1; ret; $L: bar.sync 2; ret;";
    assert_eq!(run(&module(".entry e()", split), 1, 32, &[], &mut memory).unwrap_err().code(), 702);
}

#[test]
fn unknown_opcodes_are_named_when_the_module_is_loaded() {
    let error = Module::parse(&module(".entry e()", "ret;\nwmma.load.a.sync %r1, [%rd1];")).unwrap_err();
    assert!(error.what.starts_with("wmma.load.a.sync: "), "{error}");
    assert_eq!(error.line, 13);
    for body in [
        "add.f32 %f1, %f2;",
        "mov.u32 %r1, %nobody;",
        "bra $L_nowhere;",
        "ld.global.u32 %r1, [%r99];",
        "add.rx.f32 %f1, %f1, %f1;",
    ] {
        assert!(Module::parse(&module(".entry e()", body)).is_err(), "{body}");
    }
    drop(Module::parse("").unwrap_err());
}

#[test]
fn variables_start_with_what_the_text_says() {
    let module = Module::parse(
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 4 .u32 counter = 5;\n\
         .const .align 4 .b8 table[8] = {0, 0, 128, 63};\n.global .align 8 .u64 where[2] = {generic(table), counter+4};\n",
    )
    .unwrap();
    let [counter, table, place] = module.globals() else { panic!() };
    assert_eq!((counter.name.as_str(), counter.size, &counter.init[..]), ("counter", 4, &[5, 0, 0, 0][..]));
    assert_eq!((table.size, &table.init[..]), (8, &[0, 0, 128, 63][..]));
    assert_eq!(place.addresses, [(0, 1, 0), (8, 0, 4)]);
}

/// Words and marks of PTX, so that random text gets far into the parser.
fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just(".version 8.0\n"),
        Just(".target sm_80\n"),
        Just(".entry e("),
        Just(".func f("),
        Just(".param .u64 a"),
        Just(")"),
        Just("{"),
        Just("}"),
        Just(".reg .b32 %r<4>;"),
        Just(".reg .pred %p<2>;"),
        Just(".reg .b64 %rd<4>;"),
        Just("add.s32 "),
        Just("%r1"),
        Just("%rd1"),
        Just("%p1"),
        Just(","),
        Just(";"),
        Just("[a]"),
        Just("[%rd1+4]"),
        Just("ld.global.u32 "),
        Just("st.shared.v2.u64 "),
        Just("bra L;"),
        Just("L:"),
        Just("@%p1 "),
        Just("call.uni (a), f, (a);"),
        Just("0f3F800000"),
        Just("-7"),
        Just("mov.b64 "),
        Just("{%r1, %r2}"),
        Just("bar.sync 0;"),
        Just("ret;"),
        Just(".global .align 4 .u32 g[2] = {1, 2};"),
        Just("\""),
        Just("setp.lt.and.s32 %p1|%p0, %r1, 3, !%p1;"),
        Just("atom.add.u32 %r1, [%rd1], 1;"),
        Just(".shared .b8 s[99999999999];"),
        Just("cvta.shared.u64 %rd1, s;"),
    ];
    proptest::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_text_is_no_panic(text in "\\PC{0,200}") {
        drop(Module::parse(&text));
        drop(Module::parse(&format!(".version 8.0\n{text}")));
        drop(Module::parse(&module(".entry e()", &text)));
    }

    #[test]
    fn any_words_are_no_panic(text in words()) {
        for text in [text.clone(), module(".entry e(.param .u64 a)", &text)] {
            if let Ok(module) = Module::parse(&text) {
                for entry in module.entries().values() {
                    let arguments = vec![0x41; module.parameter_bytes(*entry)];
                    let globals = vec![START; module.globals().len()];
                    let launch = Launch { blocks: [1; 3], threads: [3, 1, 1], dynamic_shared: 16, arguments: &arguments, globals: &globals, budget: 10_000, stop: None };
                    drop(module.launch(*entry, &launch, &mut Flat::new(64)));
                }
            }
        }
    }

    /// Arithmetic on any bits, and accesses at any address: nothing panics, nothing outside is reached.
    #[test]
    fn any_values_are_no_panic(a in any::<u64>(), b in any::<u64>(), op in 0..OPERATIONS.len()) {
        let body = format!("mov.b64 %rd1, {a}; mov.b64 %rd2, {b}; mov.b64 {{%r1, %r2}}, %rd1; mov.b64 {{%r3, %r4}}, %rd2; mov.b32 %f1, %r1; mov.b32 %f2, %r3; mov.b64 %fd1, %rd1; mov.b64 %fd2, %rd2; {}", OPERATIONS[op]);
        drop(run(&module(".entry e()", &body), 1, 1, &[], &mut Flat::new(64)));
    }
}

const OPERATIONS: [&str; 24] = [
    "div.s32 %r5, %r1, %r3;",
    "rem.s64 %rd3, %rd1, %rd2;",
    "shl.b64 %rd3, %rd1, %r3;",
    "shr.s32 %r5, %r1, %r3;",
    "bfe.s64 %rd3, %rd1, %r3, %r4;",
    "bfi.b64 %rd3, %rd1, %rd2, %r1, %r3;",
    "mul.hi.s64 %rd3, %rd1, %rd2;",
    "mad.hi.u64 %rd3, %rd1, %rd2, %rd1;",
    "neg.s64 %rd3, %rd1;",
    "abs.s32 %r5, %r1;",
    "prmt.b32 %r5, %r1, %r3, %r4;",
    "shf.l.clamp.b32 %r5, %r1, %r3, %r4;",
    "cvt.rzi.s64.f64 %rd3, %fd1;",
    "cvt.rm.f32.f64 %f3, %fd1;",
    "cvt.rp.f32.u64 %f3, %rd1;",
    "cvt.rn.f16.f32 %rs1, %f1;",
    "cvt.rz.f64.s64 %fd3, %rd1;",
    "fma.rz.f64 %fd3, %fd1, %fd2, %fd1;",
    "add.rm.f32 %f3, %f1, %f2;",
    "sqrt.rp.f64 %fd3, %fd1;",
    "ld.u32 %r5, [%rd1];",
    "st.local.u64 [%rd1], %rd2;",
    "ld.shared.v2.u32 {%r5, %r6}, [%r1];",
    "sad.u64 %rd3, %rd1, %rd2, %rd1;",
];
