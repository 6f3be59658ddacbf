//! Expressions in CEL.

use edge_ir::{Call, Expression};
use envoy_types::pb::google::api::expr::v1alpha1::{
    Constant, Expr,
    constant::ConstantKind,
    expr::{
        self, CreateList, CreateStruct, ExprKind, Ident, Select,
        create_struct::{Entry, entry::KeyKind},
    },
};

/// An expression, its parts numbered from 1 in the order in which they are written down.
pub(super) fn lower(expression: &Expression) -> Expr {
    Numbering { last: 0 }.lower(expression)
}

struct Numbering {
    last: i64,
}

impl Numbering {
    fn next(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    fn lower(&mut self, expression: &Expression) -> Expr {
        let id = self.next();
        let constant = |kind| {
            ExprKind::ConstExpr(Constant {
                constant_kind: Some(kind),
            })
        };
        let kind = match expression {
            Expression::Null => constant(ConstantKind::NullValue(0)),
            Expression::Bool(value) => constant(ConstantKind::BoolValue(*value)),
            Expression::Int(value) => constant(ConstantKind::Int64Value(*value)),
            Expression::Uint(value) => constant(ConstantKind::Uint64Value(*value)),
            // Written by Rust itself, which reads what it writes.
            Expression::Double(digits) => constant(ConstantKind::DoubleValue(digits.parse().unwrap_or(f64::NAN))),
            Expression::Text(text) => constant(ConstantKind::StringValue(text.to_string())),
            Expression::Bytes(bytes) => constant(ConstantKind::BytesValue(bytes.to_vec())),
            Expression::Name(name) => ExprKind::IdentExpr(Ident { name: name.to_string() }),
            Expression::Field(of, field) => self.select(of, field, SelectMode::Value),
            Expression::Has(of, field) => self.select(of, field, SelectMode::Presence),
            Expression::Call(call) => self.call(call),
            Expression::List(elements) => ExprKind::ListExpr(CreateList {
                elements: elements.iter().map(|element| self.lower(element)).collect(),
                ..Default::default()
            }),
            Expression::Map(entries) => ExprKind::StructExpr(CreateStruct {
                message_name: String::new(),
                entries: entries.iter().map(|(key, value)| self.entry(key, value)).collect(),
            }),
        };
        Expr {
            id,
            expr_kind: Some(kind),
        }
    }

    fn select(&mut self, of: &Expression, field: &str, asked: SelectMode) -> ExprKind {
        ExprKind::SelectExpr(Box::new(Select {
            operand: Some(Box::new(self.lower(of))),
            field: field.to_owned(),
            test_only: asked == SelectMode::Presence,
        }))
    }

    fn call(&mut self, call: &Call) -> ExprKind {
        ExprKind::CallExpr(Box::new(expr::Call {
            target: call.on.as_ref().map(|on| Box::new(self.lower(on))),
            function: call.function.to_string(),
            args: call.arguments.iter().map(|argument| self.lower(argument)).collect(),
        }))
    }

    fn entry(&mut self, key: &Expression, value: &Expression) -> Entry {
        Entry {
            id: self.next(),
            key_kind: Some(KeyKind::MapKey(self.lower(key))),
            value: Some(self.lower(value)),
            optional_entry: false,
        }
    }
}

/// What is asked of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SelectMode {
    /// What it holds.
    Value,
    /// Whether it is there.
    Presence,
}
