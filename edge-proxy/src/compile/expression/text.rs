//! Expressions as text → the tree that messages carry.

use cel::Program;
use cel::common::ast::{EntryExpr, Expr as Parsed, LiteralValue};
use envoy_types::pb::google::api::expr::v1alpha1::constant::ConstantKind;
use envoy_types::pb::google::api::expr::v1alpha1::expr::create_struct::Entry;
use envoy_types::pb::google::api::expr::v1alpha1::expr::create_struct::entry::KeyKind;
use envoy_types::pb::google::api::expr::v1alpha1::expr::{Call, CreateList, CreateStruct, ExprKind, Ident, Select};
use envoy_types::pb::google::api::expr::v1alpha1::{Constant, Expr};

use crate::compile::field::{At, Rejection};

/// Longest text: what is read goes as deep as it is long.
const LONGEST: usize = 4096;

/// Parses an expression.
pub(in crate::compile) fn parse(at: &At<'_>, text: &str) -> Result<Expr, Rejection> {
    if text.len() > LONGEST {
        return Err(at.error(format!("is longer than {LONGEST} bytes")));
    }
    let program = Program::compile(text).map_err(|_| at.error(format!("{text:?} is not an expression in CEL")))?;
    tree(&program.expression().expr).map_err(|why| at.error(why))
}

fn tree(parsed: &Parsed) -> Result<Expr, &'static str> {
    let boxed = |parsed: &Parsed| tree(parsed).map(Box::new);
    let kind = match parsed {
        Parsed::Literal(literal) => ExprKind::ConstExpr(Constant {
            constant_kind: Some(constant(literal)),
        }),
        Parsed::Ident(name) => ExprKind::IdentExpr(Ident { name: name.clone() }),
        Parsed::Select(select) => ExprKind::SelectExpr(Box::new(Select {
            operand: Some(boxed(&select.operand.expr)?),
            field: select.field.clone(),
            test_only: select.test,
        })),
        Parsed::Call(call) => {
            let target = call.target.as_ref().map(|target| boxed(&target.expr));
            let args = call.args.iter().map(|argument| tree(&argument.expr));
            ExprKind::CallExpr(Box::new(Call {
                target: target.transpose()?,
                function: call.func_name.clone(),
                args: args.collect::<Result<_, _>>()?,
            }))
        }
        Parsed::List(list) if list.optional_indices.is_empty() => {
            let elements = list.elements.iter().map(|element| tree(&element.expr));
            ExprKind::ListExpr(CreateList {
                elements: elements.collect::<Result<_, _>>()?,
                optional_indices: Vec::new(),
            })
        }
        Parsed::Map(map) => {
            let entries = map.entries.iter().map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) if !entry.optional => Ok(Entry {
                    key_kind: Some(KeyKind::MapKey(tree(&entry.key.expr)?)),
                    value: Some(tree(&entry.value.expr)?),
                    ..Entry::default()
                }),
                EntryExpr::MapEntry(_) | EntryExpr::StructField(_) => Err(OPTIONAL),
            });
            ExprKind::StructExpr(CreateStruct {
                message_name: String::new(),
                entries: entries.collect::<Result<_, _>>()?,
            })
        }
        Parsed::Comprehension(_) => return Err("expressions run no loops"),
        Parsed::List(_) | Parsed::Struct(_) | Parsed::Unspecified => return Err(OPTIONAL),
    };
    Ok(Expr {
        id: 0,
        expr_kind: Some(kind),
    })
}

const OPTIONAL: &str = "messages and optional values in an expression are not supported by this proxy";

fn constant(literal: &LiteralValue) -> ConstantKind {
    match literal {
        LiteralValue::Boolean(value) => ConstantKind::BoolValue(*value.inner()),
        LiteralValue::Bytes(value) => ConstantKind::BytesValue(value.inner().into()),
        LiteralValue::Double(value) => ConstantKind::DoubleValue(*value.inner()),
        LiteralValue::Int(value) => ConstantKind::Int64Value(*value.inner()),
        LiteralValue::Null => ConstantKind::NullValue(0),
        LiteralValue::String(value) => ConstantKind::StringValue(value.inner().to_owned()),
        LiteralValue::UInt(value) => ConstantKind::Uint64Value(*value.inner()),
    }
}
