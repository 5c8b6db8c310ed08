//! Loops that part of a workgroup takes while the rest waits: none may go round more than 1,024 times.
//!
//! The loops are read from the shaders. A loop counts if invocations of one workgroup can reach its end at different times: under a
//! condition, or within another loop, that depends on the invocation. Its maximum number of rounds must be plain from its text, or
//! be listed in [`BOUNDED`], with the reason.

use std::collections::{BTreeMap, BTreeSet};

use naga::{
    Arena, BinaryOperator, Block, Expression, Function, Handle, Literal, LocalVariable,
    MathFunction, Module, Statement,
};
use nearfar::TileShape;
use nearfar::kernels::{self, Kernel};

/// The most rounds of such a loop.
const MOST_ROUNDS: u64 = 1024;

/// Bound of a loop that is not plain from the text.
#[derive(Debug)]
enum Bound {
    /// The most rounds.
    Rounds(u64),
    /// No invocation waits: all that have work run the loop.
    Together,
}

/// Loops whose bound is not plain from their text: the function, the beginning of the line, and the reason for the bound.
const BOUNDED: &[(&str, &str, Bound, &str)] = &[
    (
        "add_window",
        "for (var s",
        Bound::Rounds(8),
        "segments of a window of 2,048 references",
    ),
    (
        "choose",
        "for (var other",
        Bound::Rounds(1024),
        "a slice proposes its references at most",
    ),
    (
        "drawn",
        "for (var i",
        Bound::Together,
        "every draw is compared with all of its row",
    ),
    (
        "find_positives",
        "for (var o",
        Bound::Rounds(8),
        "rows that share a look, `SHARING`",
    ),
    (
        "finish",
        "for (var part",
        Bound::Rounds(128),
        "windows of 1,024 parts, 8 a round",
    ),
    (
        "finish",
        "for (var s",
        Bound::Rounds(256),
        "segments that a workgroup sums at once",
    ),
    (
        "keep_serial",
        "while at > 0u",
        Bound::Rounds(32),
        "neighbours that are kept, `MOST_SERIAL`",
    ),
    (
        "mine_rows",
        "for (var at = 0u; at < row.w",
        Bound::Rounds(2),
        "segments of 512 positives",
    ),
    (
        "product",
        "for (var k",
        Bound::Together,
        "every invocation has an output",
    ),
    (
        "reduce",
        "for (var j",
        Bound::Together,
        "a row has a positive for all or for none",
    ),
    (
        "similarity",
        "for (var start",
        Bound::Rounds(1024),
        "32 numbers a round: rows of 32,768",
    ),
    (
        "swapped",
        "for (var start",
        Bound::Together,
        "every pair of two classes has its sum",
    ),
    (
        "value_between",
        "for (var k",
        Bound::Rounds(1024),
        "64 numbers a round: rows of 65,536",
    ),
];

/// A call of a function: for each argument, if it differs between invocations, and if the rest waits for the call.
type Use = (Handle<Function>, Vec<bool>, bool);

/// Traversal of the functions of a kernel.
struct Walk<'a> {
    module: &'a Module,
    source: &'a str,
    workgroup_size: u64,
    seen: BTreeSet<(usize, Vec<bool>, bool)>,
    /// Loops that others wait for, by function and line, with their most rounds if the text tells.
    found: BTreeMap<(String, String), Option<u64>>,
}

/// One function of the traversal.
struct Body<'a> {
    function: &'a Function,
    /// Expressions and variables that differ between invocations.
    varies: Vec<bool>,
    variables: BTreeSet<usize>,
}

fn of_kernel(
    source: &str,
    entry: &str,
    workgroup_size: u32,
) -> BTreeMap<(String, String), Option<u64>> {
    let module = naga::front::wgsl::parse_str(source).expect("is WGSL");
    let mut walk = Walk {
        module: &module,
        source,
        workgroup_size: u64::from(workgroup_size),
        seen: BTreeSet::new(),
        found: BTreeMap::new(),
    };
    let point = module.entry_points.iter().find(|point| point.name == entry);
    let function = &point.expect("is there").function;
    let of_lane = |argument: &naga::FunctionArgument| {
        !matches!(
            argument.binding,
            Some(naga::Binding::BuiltIn(
                naga::BuiltIn::WorkGroupId | naga::BuiltIn::NumWorkGroups
            ))
        )
    };
    let arguments: Vec<bool> = function.arguments.iter().map(of_lane).collect();
    walk.function(function, entry, &arguments, false);
    walk.found
}

/// Direct operands of an expression.
fn parts(expression: &Expression) -> Vec<Handle<Expression>> {
    match expression {
        Expression::Compose { components, .. } => components.clone(),
        Expression::Access { base, index } => vec![*base, *index],
        Expression::AccessIndex { base: one, .. }
        | Expression::Splat { value: one, .. }
        | Expression::Swizzle { vector: one, .. }
        | Expression::Load { pointer: one }
        | Expression::Unary { expr: one, .. }
        | Expression::Relational { argument: one, .. }
        | Expression::As { expr: one, .. } => vec![*one],
        Expression::Binary { left, right, .. } => vec![*left, *right],
        Expression::Select {
            condition,
            accept,
            reject,
        } => vec![*condition, *accept, *reject],
        Expression::Math {
            arg,
            arg1,
            arg2,
            arg3,
            ..
        } => [Some(*arg), *arg1, *arg2, *arg3]
            .into_iter()
            .flatten()
            .collect(),
        _ => Vec::new(),
    }
}

/// Variable that a pointer leads into.
fn variable(
    expressions: &Arena<Expression>,
    pointer: Handle<Expression>,
) -> Option<Handle<LocalVariable>> {
    match &expressions[pointer] {
        Expression::LocalVariable(variable) => Some(*variable),
        Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => {
            variable(expressions, *base)
        }
        _ => None,
    }
}

/// Visits every statement of a block and of the blocks within.
fn all<'a>(block: &'a Block, heard: &mut dyn FnMut(&'a Statement)) {
    for statement in block {
        heard(statement);
        for inner in blocks(statement) {
            all(inner, heard);
        }
    }
}

fn blocks(statement: &Statement) -> Vec<&Block> {
    match statement {
        Statement::Block(block) => vec![block],
        Statement::If { accept, reject, .. } => vec![accept, reject],
        Statement::Switch { cases, .. } => cases.iter().map(|case| &case.body).collect(),
        Statement::Loop {
            body, continuing, ..
        } => vec![body, continuing],
        _ => Vec::new(),
    }
}

/// The conditions on which a loop ends.
fn ends(body: &Block, break_if: Option<Handle<Expression>>) -> Vec<Handle<Expression>> {
    let is_break = |block: &Block| block.iter().any(|s| matches!(s, Statement::Break));
    let of_body = body.iter().filter_map(|statement| match statement {
        Statement::If {
            condition,
            accept,
            reject,
        } if is_break(accept) || is_break(reject) => Some(*condition),
        _ => None,
    });
    of_body.chain(break_if).collect()
}

impl Body<'_> {
    fn new<'a>(function: &'a Function, arguments: &[bool]) -> Body<'a> {
        let mut body = Body {
            function,
            varies: vec![false; function.expressions.len()],
            variables: BTreeSet::new(),
        };
        let mut results = BTreeSet::new();
        loop {
            let before = (body.varies.clone(), body.variables.clone(), results.clone());
            for (handle, expression) in function.expressions.iter() {
                body.varies[handle.index()] = match expression {
                    Expression::FunctionArgument(i) => arguments[*i as usize],
                    Expression::LocalVariable(variable) => {
                        body.variables.contains(&variable.index())
                    }
                    // Who comes first gets which number is chance.
                    Expression::AtomicResult { .. } => true,
                    Expression::CallResult(_) => results.contains(&handle.index()),
                    _ => parts(expression)
                        .iter()
                        .any(|part| body.varies[part.index()]),
                };
            }
            let mut stores = Vec::new();
            body.stores(&function.body, false, &mut stores, &mut results);
            body.variables.extend(stores);
            if before == (body.varies.clone(), body.variables.clone(), results.clone()) {
                return body;
            }
        }
    }

    /// Collects variables that are assigned values that differ between invocations, or in branches that not all take; and calls
    /// whose results differ.
    fn stores(
        &self,
        block: &Block,
        apart: bool,
        to: &mut Vec<usize>,
        results: &mut BTreeSet<usize>,
    ) {
        for statement in block {
            match statement {
                Statement::Store { pointer, value } => {
                    let differs = apart || self.varies[value.index()];
                    if let Some(variable) = variable(&self.function.expressions, *pointer)
                        && differs
                    {
                        to.push(variable.index());
                    }
                }
                Statement::Call {
                    arguments,
                    result: Some(result),
                    ..
                } if arguments
                    .iter()
                    .any(|argument| self.varies[argument.index()]) =>
                {
                    results.insert(result.index());
                }
                _ => {}
            }
            let apart = apart || self.parts_ways(statement);
            for inner in blocks(statement) {
                self.stores(inner, apart, to, results);
            }
        }
    }

    /// Tells if invocations of a workgroup diverge at this statement.
    fn parts_ways(&self, statement: &Statement) -> bool {
        let varies = |condition: &Handle<Expression>| self.varies[condition.index()];
        match statement {
            Statement::If { condition, .. } => varies(condition),
            Statement::Switch { selector, .. } => varies(selector),
            Statement::Loop { body, break_if, .. } => ends(body, *break_if).iter().any(varies),
            _ => false,
        }
    }

    fn is_same(&self, a: Handle<Expression>, b: Handle<Expression>) -> bool {
        let expressions = &self.function.expressions;
        match (&expressions[a], &expressions[b]) {
            (Expression::Load { pointer: a }, Expression::Load { pointer: b }) => {
                let (a, b) = (variable(expressions, *a), variable(expressions, *b));
                a.is_some() && a == b
            }
            _ => a == b,
        }
    }
}

impl Walk<'_> {
    fn function(&mut self, function: &Function, name: &str, arguments: &[bool], alone: bool) {
        let body = Body::new(function, arguments);
        self.block(&body, name, &function.body, alone);
    }

    fn block(&mut self, body: &Body<'_>, name: &str, block: &Block, alone: bool) {
        for (statement, span) in block.span_iter() {
            if let Statement::Call {
                function: callee,
                arguments,
                ..
            } = statement
            {
                let varies: Vec<bool> = arguments.iter().map(|a| body.varies[a.index()]).collect();
                self.call((*callee, varies, alone));
            }
            if let Statement::Loop { .. } = statement
                && alone
            {
                let text = span.to_range().map_or("", |range| &self.source[range]);
                let line = text.lines().next().unwrap_or_default().to_owned();
                let rounds = self.rounds(body, statement);
                let known = self.found.entry((name.to_owned(), line)).or_insert(rounds);
                *known = known.zip(rounds).map(|(a, b)| a.max(b));
            }
            let alone = alone || body.parts_ways(statement);
            for inner in blocks(statement) {
                self.block(body, name, inner, alone);
            }
        }
    }

    fn call(&mut self, (callee, varies, alone): Use) {
        if self.seen.insert((callee.index(), varies.clone(), alone)) {
            let module = self.module;
            let function = &module.functions[callee];
            let name = function.name.as_deref().unwrap_or_default();
            self.function(function, name, &varies, alone);
        }
    }

    /// The most rounds of a loop, if its text tells.
    fn rounds(&self, body: &Body<'_>, statement: &Statement) -> Option<u64> {
        let Statement::Loop {
            body: inner,
            continuing,
            break_if,
        } = statement
        else {
            return None;
        };
        let expressions = &body.function.expressions;
        let by_two = |handle: Handle<Expression>| match expressions[handle] {
            Expression::Binary {
                op: BinaryOperator::Divide | BinaryOperator::Multiply,
                right,
                ..
            } => self.most(body, right) == Some(2),
            _ => false,
        };
        // A search by halves, or a count that doubles or halves: as many rounds as a number has bits.
        let mut halves = false;
        let of_two = |statement: &Statement, halves: &mut bool| {
            if let Statement::Store { value, .. } = statement {
                *halves |= by_two(*value);
            }
        };
        all(continuing, &mut |statement| of_two(statement, &mut halves));
        let mut emitted = false;
        all(inner, &mut |statement| {
            if let Statement::Emit(range) = statement {
                emitted |= range.clone().any(by_two);
            }
        });
        let conditions = ends(inner, *break_if);
        let between_variables = conditions
            .iter()
            .any(|condition| match expressions[*condition] {
                Expression::Binary { left, right, .. } => [left, right]
                    .iter()
                    .all(|side| matches!(expressions[*side], Expression::Load { .. })),
                _ => false,
            });
        if halves || (emitted && between_variables && continuing.is_empty()) {
            return Some(32);
        }
        // A count from one value up to another.
        conditions
            .iter()
            .filter_map(|condition| match expressions[*condition] {
                Expression::Binary {
                    op: BinaryOperator::Less,
                    left,
                    right,
                } => self.between(body, left, right),
                _ => None,
            })
            .min()
    }

    /// The largest distance from a counter's start to its limit.
    fn between(
        &self,
        body: &Body<'_>,
        counter: Handle<Expression>,
        limit: Handle<Expression>,
    ) -> Option<u64> {
        let expressions = &body.function.expressions;
        let Expression::Load { pointer } = expressions[counter] else {
            return None;
        };
        let counter = variable(expressions, pointer)?;
        let mut first = Vec::new();
        all(&body.function.body, &mut |statement| {
            if let Statement::Store { pointer, value } = statement
                && variable(expressions, *pointer) == Some(counter)
            {
                first.push(*value);
            }
        });
        // The first store is the start value, the second the step.
        let from = first.first().copied();
        let after = |sum: Handle<Expression>| match expressions[sum] {
            Expression::Binary {
                op: BinaryOperator::Add,
                left,
                right,
            } if from.is_some_and(|from| body.is_same(left, from)) => self.most(body, right),
            _ => None,
        };
        let by_sum = match expressions[limit] {
            Expression::Math {
                fun: MathFunction::Min,
                arg,
                arg1,
                ..
            } => after(arg).or(arg1.and_then(after)),
            _ => after(limit),
        };
        by_sum.or(self.most(body, limit))
    }

    /// Upper bound of a number, if the text tells.
    fn most(&self, body: &Body<'_>, handle: Handle<Expression>) -> Option<u64> {
        self.most_of(&body.function.expressions, handle)
    }

    fn most_of(&self, expressions: &Arena<Expression>, handle: Handle<Expression>) -> Option<u64> {
        let most = |handle| self.most_of(expressions, handle);
        match &expressions[handle] {
            Expression::Literal(Literal::U32(value)) => Some(u64::from(*value)),
            Expression::Constant(constant) => {
                let init = self.module.constants[*constant].init;
                self.most_of(&self.module.global_expressions, init)
            }
            Expression::Override(_) => Some(self.workgroup_size),
            Expression::Math {
                fun: MathFunction::Min,
                arg,
                arg1,
                ..
            } => most(*arg).into_iter().chain(arg1.and_then(most)).min(),
            Expression::Binary { op, left, right } => {
                let (left, right) = (most(*left), most(*right));
                match op {
                    BinaryOperator::Add => Some(left? + right?),
                    BinaryOperator::Multiply => Some(left? * right?),
                    BinaryOperator::Divide => left,
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// A line without its spaces: a kernel's text has lost some.
fn bare(line: &str) -> String {
    line.replace(' ', "")
}

#[test]
fn no_loop_that_others_wait_for_is_long() {
    let mut unbounded = BTreeSet::new();
    let mut used = BTreeSet::new();
    let mut count = 0;
    let cut = |kernel: &'static Kernel| TileShape::ALL.map(|shape| (kernel, kernel.size_in(shape)));
    for (kernel, size) in kernels::ALL.iter().copied().flat_map(cut) {
        for ((function, line), rounds) in of_kernel(&kernel.source.concat(), kernel.entry, size) {
            count += 1;
            if rounds.is_some_and(|rounds| rounds <= MOST_ROUNDS) {
                continue;
            }
            let known = BOUNDED
                .iter()
                .find(|(of, begin, ..)| *of == function && bare(&line).starts_with(&bare(begin)));
            match known {
                Some(known) => {
                    let long = matches!(known.2, Bound::Rounds(rounds) if rounds > MOST_ROUNDS);
                    assert!(!long, "{known:?}");
                    used.insert((known.0, known.1));
                }
                None => {
                    unbounded.insert(format!("{} {function}: {line} {rounds:?}", kernel.name));
                }
            }
        }
    }
    println!("{count} loops that others wait for");
    assert!(unbounded.is_empty(), "{unbounded:#?}");
    let listed: BTreeSet<_> = BOUNDED
        .iter()
        .map(|(of, begin, ..)| (*of, *begin))
        .collect();
    assert_eq!(used, listed, "all that are listed are there");
}

/// Loops of a shader with these lines in its only function.
fn planted(lines: &str) -> BTreeMap<(String, String), Option<u64>> {
    let source = format!(
        "override WORKGROUP_SIZE: u32;
        @group(0) @binding(0) var<uniform> count: u32;
        @group(0) @binding(1) var<storage, read_write> sum: array<u32>;
        fn add(times: u32) {{ for (var i = 0u; i < times; i++) {{ sum[0] += i; }} }}
        @compute @workgroup_size(WORKGROUP_SIZE)
        fn main(@builtin(local_invocation_index) lane: u32) {{ {lines} }}"
    );
    of_kernel(&source, "main", 256)
}

#[test]
fn a_long_loop_that_is_planted_is_found() {
    let rounds = |lines| planted(lines).into_values().collect::<Vec<_>>();
    // All invocations run it together, or each has its own part of it.
    assert!(rounds("for (var i = 0u; i < count; i++) { sum[lane] += i; }").is_empty());
    assert!(
        rounds("for (var i = lane; i < count; i += WORKGROUP_SIZE) { sum[i] += i; }").is_empty()
    );
    assert!(rounds("add(count);").is_empty());
    // Other invocations wait for these loops.
    let alone = "if lane == 0u { for (var i = 0u; i < count; i++) { sum[0] += i; } }";
    assert_eq!(rounds(alone), [None]);
    assert_eq!(rounds("if lane < 17u { add(count); }"), [None]);
    assert_eq!(
        rounds("let k = lane * 2u; if k < count { add(count); }"),
        [None]
    );
    let within = "for (var k = lane; k < count; k += WORKGROUP_SIZE) { add(count); }";
    assert_eq!(rounds(within), [None]);
    let of = |limit: &str| {
        let lines =
            format!("if lane == 0u {{ for (var i = 0u; i < {limit}; i++) {{ sum[0] += i; }} }}");
        planted(&lines).into_values().collect::<Vec<_>>()
    };
    assert_eq!(of("1025u"), [Some(1025)]);
    assert_eq!(of("min(count, 1024u)"), [Some(1024)]);
    assert_eq!(of("WORKGROUP_SIZE"), [Some(256)]);
    let part =
        "if lane == 0u { for (var i = count; i < min(i + 9u, count); i++) { sum[0] += i; } }";
    assert_eq!(rounds(part), [None], "a limit that moves is none");
    let halves = "if lane == 0u { var i = count; while i > 0u { i /= 2u; } }";
    assert_eq!(rounds(halves), [None], "not by any name");
}
