//! A Wasm module for proxies (Proxy-Wasm ABI 0.2.1), written byte by byte: it is too small for a compiler.
//!
//! It defines what a proxy demands, and adds a header to each response. As text:
//!
//! ```text
//! (import "env" "proxy_add_header_map_value" (func $add (param i32 i32 i32 i32 i32) (result i32)))
//! (memory (export "memory") 1)
//! (data (i32.const 64) "x-told")
//! (data (i32.const 128) "…")
//! (func (export "proxy_abi_version_0_2_1"))
//! (func (export "malloc") (param i32) (result i32) (i32.const 1024))
//! (func (export "proxy_on_context_create") (param i32 i32))
//! (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
//!   (drop (call $add (i32.const 2) (i32.const 64) (i32.const 6) (i32.const 128) (i32.const …)))
//!   (i32.const 0))
//! ```

/// The header that it adds.
const HEADER: &str = "x-told";
/// Where its texts lie, and what it hands out.
const NAME_AT: i32 = 64;
const VALUE_AT: i32 = 128;
const FREE_AT: i32 = 1024;
/// The headers of responses, in the ABI.
const RESPONSE_HEADERS: i32 = 2;

/// Type of numbers.
const I32: u8 = 0x7f;

/// A module that tells clients something.
pub(super) fn telling(what: &str) -> Vec<u8> {
    let none: &[u8] = &[];
    let types = [
        function_type(&[I32; 5], &[I32]),
        function_type(none, none),
        function_type(&[I32], &[I32]),
        function_type(&[I32; 2], none),
        function_type(&[I32; 3], &[I32]),
    ];
    let import = [name("env"), name("proxy_add_header_map_value"), vec![0, 0]].concat();
    let export = |text: &str, kind: u8, index: u8| [name(text), vec![kind, index]].concat();
    let exports = [
        export("memory", 2, 0),
        export("proxy_abi_version_0_2_1", 0, 1),
        export("malloc", 0, 2),
        export("proxy_on_context_create", 0, 3),
        export("proxy_on_response_headers", 0, 4),
    ];
    let size = |text: &str| i32::try_from(text.len()).unwrap();
    let add = [
        number(RESPONSE_HEADERS),
        number(NAME_AT),
        number(size(HEADER)),
        number(VALUE_AT),
        number(size(what)),
        // Calls the import, and drops what it says.
        vec![0x10, 0, 0x1a],
        number(0),
    ];
    let bodies = [body(none), body(&number(FREE_AT)), body(none), body(&add.concat())];
    let text_at = |at: i32, text: &str| [vec![0], number(at), vec![0x0b], name(text)].concat();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &types),
        section(2, &[import]),
        // The types of the functions.
        section(3, &[vec![1], vec![2], vec![3], vec![4]]),
        // One page of memory, and no bound.
        section(5, &[vec![0, 1]]),
        section(7, &exports),
        section(10, &bodies),
        section(11, &[text_at(NAME_AT, HEADER), text_at(VALUE_AT, what)]),
    ]
    .concat()
}

fn section(id: u8, entries: &[Vec<u8>]) -> Vec<u8> {
    let content = [length(entries.len()), entries.concat()].concat();
    [vec![id], length(content.len()), content].concat()
}

fn function_type(parameters: &[u8], results: &[u8]) -> Vec<u8> {
    [
        &[0x60],
        &*length(parameters.len()),
        parameters,
        &*length(results.len()),
        results,
    ]
    .concat()
}

/// A function without variables.
fn body(instructions: &[u8]) -> Vec<u8> {
    let code = [&[0], instructions, &[0x0b]].concat();
    [length(code.len()), code].concat()
}

fn name(text: &str) -> Vec<u8> {
    [length(text.len()), text.as_bytes().to_vec()].concat()
}

/// The instruction that gives a number.
fn number(value: i32) -> Vec<u8> {
    let mut bytes = vec![0x41];
    let mut rest = value;
    loop {
        let seven = u8::try_from(rest & 0x7f).unwrap();
        rest >>= 7;
        // The last byte's second highest bit is the sign.
        if rest == 0 && seven & 0x40 == 0 {
            bytes.push(seven);
            return bytes;
        }
        bytes.push(seven | 0x80);
    }
}

/// A length, in LEB128.
fn length(value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = value;
    loop {
        let seven = u8::try_from(rest & 0x7f).unwrap();
        rest >>= 7;
        if rest == 0 {
            bytes.push(seven);
            return bytes;
        }
        bytes.push(seven | 0x80);
    }
}
