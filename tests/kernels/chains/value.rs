//! Values as far as they are known, and what shaders do with them.

use naga::{BinaryOperator, Handle};

/// A value as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Unknown,
    B(bool),
    I(i32),
    U(u32),
    F(f32),
    /// A vector, an array or a struct.
    Many(Vec<Self>),
    At(Place),
}

use Value::{B, F, I, Many, U, Unknown};

/// Place that a pointer leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) root: Root,
    /// Numbers of members, from the outside in; one that is not known is `None`.
    pub(super) path: Vec<Option<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Root {
    Local(usize),
    Global(Handle<naga::GlobalVariable>),
}

pub(super) fn many(values: &[u32]) -> Value {
    Many(values.iter().copied().map(U).collect())
}

/// A function of two values, member by member.
pub(super) fn each(a: &Value, b: &Value, f: &dyn Fn(&Value, &Value) -> Value) -> Value {
    match (a, b) {
        (Many(a), Many(b)) => Many(a.iter().zip(b).map(|(a, b)| each(a, b, f)).collect()),
        (Many(a), b) => Many(a.iter().map(|a| each(a, b, f)).collect()),
        (a, Many(b)) => Many(b.iter().map(|b| each(a, b, f)).collect()),
        (a, b) => f(a, b),
    }
}

pub(super) fn binary(op: BinaryOperator, a: &Value, b: &Value) -> Value {
    use BinaryOperator as Op;
    match (op, a, b) {
        (Op::And | Op::LogicalAnd, B(false), _) | (Op::And | Op::LogicalAnd, _, B(false)) => {
            B(false)
        }
        (Op::InclusiveOr | Op::LogicalOr, B(true), _)
        | (Op::InclusiveOr | Op::LogicalOr, _, B(true)) => B(true),
        (_, U(a), U(b)) => whole(op, *a, *b),
        (_, I(a), I(b)) => match op {
            Op::Add => I(a.wrapping_add(*b)),
            Op::Subtract => I(a.wrapping_sub(*b)),
            Op::Multiply => I(a.wrapping_mul(*b)),
            Op::Less => B(a < b),
            Op::Greater => B(a > b),
            _ => Unknown,
        },
        (_, F(a), F(b)) => match op {
            Op::Add => F(a + b),
            Op::Subtract => F(a - b),
            Op::Multiply => F(a * b),
            Op::Divide => F(a / b),
            Op::Less => B(a < b),
            Op::LessEqual => B(a <= b),
            Op::Greater => B(a > b),
            Op::GreaterEqual => B(a >= b),
            Op::Equal => B(a == b),
            Op::NotEqual => B(a != b),
            _ => Unknown,
        },
        (_, B(a), B(b)) => match op {
            Op::And | Op::LogicalAnd => B(*a && *b),
            Op::InclusiveOr | Op::LogicalOr => B(*a || *b),
            Op::Equal => B(a == b),
            Op::NotEqual => B(a != b),
            _ => Unknown,
        },
        _ => Unknown,
    }
}

pub(super) fn whole(op: BinaryOperator, a: u32, b: u32) -> Value {
    use BinaryOperator as Op;
    match op {
        Op::Add => U(a.wrapping_add(b)),
        Op::Subtract => U(a.wrapping_sub(b)),
        Op::Multiply => U(a.wrapping_mul(b)),
        Op::Divide => a.checked_div(b).map_or(Unknown, U),
        Op::Modulo => a.checked_rem(b).map_or(Unknown, U),
        Op::And => U(a & b),
        Op::ExclusiveOr => U(a ^ b),
        Op::InclusiveOr => U(a | b),
        Op::ShiftLeft => U(a << (b % 32)),
        Op::ShiftRight => U(a >> (b % 32)),
        Op::Equal => B(a == b),
        Op::NotEqual => B(a != b),
        Op::Less => B(a < b),
        Op::LessEqual => B(a <= b),
        Op::Greater => B(a > b),
        Op::GreaterEqual => B(a >= b),
        _ => Unknown,
    }
}

/// The smaller or the larger; of a number that is not known and one that is, that: counts are as large as the text lets them be.
pub(super) fn extreme(smaller: bool, a: &Value, b: &Value) -> Value {
    match (a, b) {
        (U(a), U(b)) => U(if smaller { *a.min(b) } else { *a.max(b) }),
        (I(a), I(b)) => I(if smaller { *a.min(b) } else { *a.max(b) }),
        (F(a), F(b)) => F(if smaller { a.min(*b) } else { a.max(*b) }),
        (Unknown, known @ U(_)) | (known @ U(_), Unknown) if smaller => known.clone(),
        _ => Unknown,
    }
}

pub(super) fn member(value: &Value, path: &[Option<usize>]) -> Value {
    match (value, path) {
        (value, []) => value.clone(),
        (Many(members), [Some(i), rest @ ..]) => {
            members.get(*i).map_or(Unknown, |own| member(own, rest))
        }
        _ => Unknown,
    }
}

pub(super) fn put(into: &mut Value, path: &[Option<usize>], value: Value) {
    match (&mut *into, path) {
        (_, []) => *into = value,
        (Many(members), [Some(i), rest @ ..]) if *i < members.len() => {
            put(&mut members[*i], rest, value);
        }
        _ => *into = Unknown,
    }
}
