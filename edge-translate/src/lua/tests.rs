use super::{Script, read};

fn script(text: &str) -> Script {
    read(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

#[test]
fn programs_are_read() {
    for text in [
        "",
        "#!/usr/bin/lua\nreturn",
        "-- nothing",
        "--[==[ long\n]] comment ]==] local a = 1",
        "local a, b = 1, 'two' ; b = a",
        "a.b['c'].d = function(...) return ... end",
        "function a.b.c:d(x, y, ...) return x, y, ... end",
        "for i = 1, 10, 2 do if i > 3 then break end end",
        "for k, v in pairs({1, 2; x = 3, [4] = 5,}) do print(k, v) end",
        "while not done do done = true end",
        "repeat local x = f{} until x == nil or -x ^ 2 .. 'a' ~= #x",
        "goto over; do end ::over::",
        "::again:: do goto again end do goto on end ::on:: do ::on:: end",
        "local s = '\\a\\065\\xfF\\u{10FFFF}\\z  x\\\\'",
        "local n = {0x1F, 1e-3, .5, 3., 0xA.8p1, 10LL, 2i}",
        "f'text':g[[long\ntext]]:h{}",
        "local s = 'a\\'b\\\nc' .. [=[ ]] ]=]",
        "if a then elseif b then else return end",
        "(f or g)(1)",
    ] {
        script(text);
    }
}

#[test]
fn what_is_no_program_says_where() {
    for (text, expected) in [
        ("if x > 5\n  print(x)\nend", "line 2: unexpected print, then expected"),
        ("function f( return end", "line 1: unexpected return, a name expected"),
        ("a + 1", "line 1: unexpected +"),
        ("f() = 1", "line 1: nothing can be assigned to this"),
        ("x = 'open", "line 1: unfinished string"),
        ("x = [[open", "line 1: unfinished long string"),
        ("\n\nx = 3x", "line 3: malformed number 3x"),
        ("break", "line 1: break outside of a loop"),
        ("goto nowhere", "line 1: undefined label 'nowhere'"),
        ("::a:: function f() goto a end", "line 1: undefined label 'a'"),
        ("do ::a:: end goto a", "line 1: undefined label 'a'"),
        ("::a:: ::a::", "line 1: duplicate label 'a'"),
        ("x = '\\q'", "line 1: invalid escape sequence"),
        ("x = '\\300'", "line 1: invalid escape sequence"),
        ("x = '\\xg0'", "line 1: invalid escape sequence"),
        ("x = '\\u{110000}'", "line 1: invalid escape sequence"),
        ("end", "line 1: unexpected end"),
        ("while true do", "line 1: unexpected the end, end expected"),
        ("return 1 x = 2", "line 1: unexpected x"),
        ("x = !y", "line 1: unexpected '!'"),
        (
            "function f() return ... end",
            "line 1: ... outside of a function that takes any arguments",
        ),
    ] {
        assert_eq!(read(text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn depth_has_an_end() {
    for (open, inside) in [
        ("(", "1"),
        ("{", ""),
        ("not ", "x"),
        ("f(", ""),
        ("function() return ", "1"),
    ] {
        let text = format!("x = {}{inside}", open.repeat(100_000));
        assert_eq!(read(&text).unwrap_err(), "line 1: too many things within each other");
    }
    let blocks = "do ".repeat(100_000);
    assert!(read(&blocks).unwrap_err().contains("too many"));
    let chain = format!("x = {}1", "1 .. ".repeat(100_000));
    assert!(read(&chain).unwrap_err().contains("too many"));
}

#[test]
fn a_function_has_two_hundred_local_variables() {
    let locals = |n: usize| "local x ".repeat(n);
    script(&locals(200));
    script(&format!(
        "do {} end function f(a) {} end {}",
        locals(200),
        locals(199),
        locals(200)
    ));
    for text in [
        locals(201),
        format!("function f(a) {} end", locals(200)),
        format!("function f:g() {} end", locals(200)),
        format!("for i = 1, 2 do {} end", locals(197)),
    ] {
        assert!(read(&text).unwrap_err().contains("more than 200 local variables"));
    }
}

#[test]
fn what_ends_a_script_while_it_is_loaded_is_noted() {
    for (text, at) in [
        ("foo()", "line 1: attempt to use global 'foo'"),
        ("\nx.y = 1", "line 2: attempt to use global 'x'"),
        ("function x.y() end", "line 1: attempt to use global 'x'"),
        ("h:log()", "line 1: attempt to use global 'h'"),
        ("error('x')", "line 1: the script ends with an error"),
    ] {
        let end = script(text).end.unwrap_or_default();
        assert!(end.starts_with(at), "{text}: {end}");
    }
    for text in [
        "function foo() bar() end foo()",
        "x = {} x.y = 1 x.z, y = 1, 2 y()",
        "local function f(h) h:log() end f()",
        "if bar then bar() end",
        "for i, v in ipairs({}) do v() end",
        "string.x = 1 require('json').y = 2",
        "function envoy_on_request(h) error('x') end",
    ] {
        assert_eq!(script(text).end, None, "{text}");
    }
}

#[test]
fn methods_and_calls_are_noted() {
    let read = script(
        "function envoy_on_request(handle)\n local f = function() handle:inner() end\n handle:headers():get('x')\n \
         os.getenv('HOME') io.open('/etc/' .. name) require 'json'\nend\nhandle:outer()\n\
         envoy_on_response = function(h) h:body() end",
    );
    let functions: Vec<_> = read
        .functions
        .iter()
        .map(|f| {
            (
                f.name.as_str(),
                f.methods.iter().map(String::as_str).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(
        functions,
        [
            ("envoy_on_request", vec!["headers", "inner"]),
            ("envoy_on_response", vec!["body"])
        ]
    );
    let calls: Vec<_> = read
        .calls
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_deref()))
        .collect();
    assert_eq!(
        calls,
        [
            ("io.open", None),
            ("os.getenv", Some("HOME")),
            ("require", Some("json"))
        ]
    );
}
