//! The tree of an expression, as messages carry it.

use cel::{
    Program,
    common::ast::{EntryExpr, Expr, LiteralValue},
};
use serde_json::{Value, json};

/// The tree of a text.
pub(super) fn of(text: &str) -> Value {
    let program = Program::compile(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let mut last = 0;
    tree(&program.expression().expr, &mut last)
}

fn tree(expression: &Expr, last: &mut u64) -> Value {
    *last += 1;
    let id = last.to_string();
    let mut made = match expression {
        Expr::Literal(literal) => json!({"const_expr": constant(literal)}),
        Expr::Ident(name) => json!({"ident_expr": {"name": name}}),
        Expr::Select(select) => json!({"select_expr": {
            "operand": tree(&select.operand.expr, last), "field": select.field, "test_only": select.test,
        }}),
        Expr::Call(call) => {
            let target = call.target.as_ref().map(|target| tree(&target.expr, last));
            let arguments: Vec<_> = call.args.iter().map(|argument| tree(&argument.expr, last)).collect();
            let function = match call.func_name.as_str() {
                "possible" => "@not_strictly_false",
                name => name,
            };
            let mut made = json!({"function": function, "args": arguments});
            if let Some(target) = target {
                made["target"] = target;
            }
            json!({"call_expr": made})
        }
        Expr::List(list) => {
            let elements: Vec<_> = list.elements.iter().map(|element| tree(&element.expr, last)).collect();
            json!({"list_expr": {"elements": elements}})
        }
        Expr::Map(map) => {
            let entries = map.entries.iter().map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    *last += 1;
                    let id = last.to_string();
                    json!({"id": id, "map_key": tree(&entry.key.expr, last), "value": tree(&entry.value.expr, last)})
                }
                EntryExpr::StructField(_) => panic!("a message"),
            });
            json!({"struct_expr": {"entries": entries.collect::<Vec<_>>()}})
        }
        other => panic!("{other:?}"),
    };
    made["id"] = id.into();
    made
}

fn constant(literal: &LiteralValue) -> Value {
    use base64::Engine as _;
    match literal {
        LiteralValue::Boolean(value) => json!({"bool_value": value.inner()}),
        LiteralValue::Bytes(value) => {
            json!({"bytes_value": base64::engine::general_purpose::STANDARD.encode(value.inner())})
        }
        LiteralValue::Double(value) => json!({"double_value": value.inner()}),
        LiteralValue::Int(value) => json!({"int64_value": value.inner().to_string()}),
        LiteralValue::Null => json!({"null_value": null}),
        LiteralValue::String(value) => json!({"string_value": value.inner()}),
        LiteralValue::UInt(value) => json!({"uint64_value": value.inner().to_string()}),
    }
}
