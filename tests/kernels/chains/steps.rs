//! Steps that one invocation of a dispatch takes after each other, counted on the shader's text as naga reads it.
//!
//! A step is a round of a loop that has no loop within; a round of another is its loops' steps, one at least. The parameters of the
//! dispatch, the invocation's number and the shape of the data ([`World`]) are known; all else that is read is not. Where a branch
//! depends on what is not known, the longer one counts, and one that leaves a loop is not taken.

use naga::{
    BinaryOperator, Block, BuiltIn, Expression, Function, Handle, Literal, MathFunction, Module,
    ScalarKind, Statement, SwitchValue, TypeInner, UnaryOperator,
};

use super::value::Value::{At, B, F, I, Many, U, Unknown};
use super::value::{Place, Root, Value, binary, each, extreme, many, member, put};

/// Steps after which a count gives up.
const MOST: u64 = 1 << 13;

/// Known numbers of the data, by the name of a variable: an element, if that is an array.
pub(super) type World<'a> = &'a dyn Fn(&str) -> Option<Value>;

/// Way in which a block ends.
#[derive(Clone, Debug, PartialEq)]
enum Flow {
    On,
    Break,
    Continue,
    Return(Value),
}

/// A call of a function that is under way.
#[derive(Clone)]
struct Frame<'a> {
    function: &'a Function,
    arguments: Vec<Value>,
    /// What was computed so far.
    values: Vec<Option<Value>>,
    locals: Vec<Value>,
}

/// A dispatch as its submit has it.
pub(super) struct Dispatched<'a> {
    pub(super) entry: &'a str,
    pub(super) workgroup_size: u32,
    pub(super) grid: [u32; 2],
    pub(super) params: &'a [u8],
}

struct Count<'a> {
    module: &'a Module,
    dispatched: &'a Dispatched<'a>,
    world: World<'a>,
    /// Answer to questions whose answer is not known, if both are as long.
    guess: bool,
    steps: u64,
}

/// The most steps of an invocation of the dispatch: of some workgroups and lanes. `None`: a loop has no end in sight.
pub(super) fn longest(
    module: &Module,
    dispatched: &Dispatched<'_>,
    world: World<'_>,
) -> Option<u64> {
    let Dispatched {
        workgroup_size,
        grid: [x, y],
        ..
    } = *dispatched;
    let groups = [[0, 0], [1 % x, 0], [x / 2, y / 2], [x - 1, y - 1]];
    let lanes = [0, 1, 3, 15, 31, 63, 127, 254, 255].map(|lane| lane.min(workgroup_size - 1));
    let mut most = 0;
    for (i, group) in groups.iter().enumerate() {
        for (j, lane) in lanes.into_iter().enumerate() {
            if groups[..i].contains(group) || lanes[..j].contains(&lane) {
                continue;
            }
            for guess in [true, false] {
                let mut count = Count {
                    module,
                    dispatched,
                    world,
                    guess,
                    steps: 0,
                };
                count.invocation(*group, lane);
                if count.steps > MOST {
                    return None;
                }
                most = most.max(count.steps);
            }
        }
    }
    Some(most)
}

impl<'a> Count<'a> {
    fn invocation(&mut self, group: [u32; 2], lane: u32) {
        let points = &self.module.entry_points;
        let point = points.iter().find(|p| p.name == self.dispatched.entry);
        let function = &point.expect("the module has it").function;
        let arguments = function.arguments.iter().map(|argument| {
            let [x, y] = self.dispatched.grid;
            match argument.binding {
                Some(naga::Binding::BuiltIn(BuiltIn::WorkGroupId)) => {
                    many(&[group[0], group[1], 0])
                }
                Some(naga::Binding::BuiltIn(BuiltIn::NumWorkGroups)) => many(&[x, y, 1]),
                Some(naga::Binding::BuiltIn(BuiltIn::LocalInvocationIndex)) => U(lane),
                _ => Unknown,
            }
        });
        self.call(function, arguments.collect());
    }

    fn call(&mut self, function: &'a Function, arguments: Vec<Value>) -> Value {
        let mut frame = Frame {
            function,
            arguments,
            values: vec![None; function.expressions.len()],
            locals: Vec::new(),
        };
        for (_, local) in function.local_variables.iter() {
            let start = match local.init {
                Some(init) => self.value(&frame, init),
                None => self.zero(local.ty),
            };
            frame.locals.push(start);
        }
        match self.block(&mut frame, &function.body) {
            Flow::Return(value) => value,
            _ => Unknown,
        }
    }

    fn zero(&self, ty: Handle<naga::Type>) -> Value {
        let scalar = |kind| match kind {
            ScalarKind::Uint => U(0),
            ScalarKind::Sint => I(0),
            ScalarKind::Float => F(0.0),
            ScalarKind::Bool => B(false),
            _ => Unknown,
        };
        match &self.module.types[ty].inner {
            TypeInner::Scalar(of) => scalar(of.kind),
            TypeInner::Vector { size, scalar: of } => Many(vec![scalar(of.kind); *size as usize]),
            TypeInner::Array {
                base,
                size: naga::ArraySize::Constant(count),
                ..
            } if count.get() <= 64 => Many(vec![self.zero(*base); count.get() as usize]),
            TypeInner::Struct { members, .. } => {
                Many(members.iter().map(|own| self.zero(own.ty)).collect())
            }
            _ => Unknown,
        }
    }

    fn block(&mut self, frame: &mut Frame<'a>, block: &'a Block) -> Flow {
        for statement in block {
            if self.steps > MOST {
                return Flow::Return(Unknown);
            }
            let flow = self.statement(frame, statement);
            if flow != Flow::On {
                return flow;
            }
        }
        Flow::On
    }

    fn statement(&mut self, frame: &mut Frame<'a>, statement: &'a Statement) -> Flow {
        match statement {
            Statement::Emit(range) => {
                for handle in range.clone() {
                    frame.values[handle.index()] = Some(self.emitted(frame, handle));
                }
            }
            Statement::Block(block) => return self.block(frame, block),
            Statement::If {
                condition,
                accept,
                reject,
            } => {
                return match self.value(frame, *condition) {
                    B(true) => self.block(frame, accept),
                    B(false) => self.block(frame, reject),
                    _ => self.either(frame, &[accept, reject]),
                };
            }
            Statement::Switch { selector, cases } => {
                return self.switch(frame, *selector, cases);
            }
            Statement::Loop {
                body,
                continuing,
                break_if,
            } => return self.rounds(frame, body, continuing, *break_if),
            Statement::Break => return Flow::Break,
            Statement::Continue => return Flow::Continue,
            Statement::Return { value } => {
                let value = value.map_or(Unknown, |value| self.value(frame, value));
                return Flow::Return(value);
            }
            Statement::Store { pointer, value } => {
                let value = self.value(frame, *value);
                if let At(place) = self.value(frame, *pointer)
                    && let Root::Local(i) = place.root
                {
                    put(&mut frame.locals[i], &place.path, value);
                }
            }
            Statement::Call {
                function,
                arguments,
                result,
            } => {
                let arguments: Vec<Value> =
                    arguments.iter().map(|a| self.value(frame, *a)).collect();
                let local = |value: &Value| matches!(value, At(place) if matches!(place.root, Root::Local(_)));
                assert!(!arguments.iter().any(local), "no pointer is handed on");
                let value = self.call(&self.module.functions[*function], arguments);
                if let Some(result) = result {
                    frame.values[result.index()] = Some(value);
                }
            }
            Statement::WorkGroupUniformLoad { pointer, result } => {
                frame.values[result.index()] = Some(self.load(frame, *pointer));
            }
            _ => {}
        }
        Flow::On
    }

    /// The longest of some blocks, none of which is known to be taken.
    fn either(&mut self, frame: &mut Frame<'a>, blocks: &[&'a Block]) -> Flow {
        let before = self.steps;
        let mut best: Option<(Frame<'a>, Flow, u64)> = None;
        for block in blocks {
            let mut own = frame.clone();
            self.steps = before;
            let flow = self.block(&mut own, block);
            let steps = self.steps - before;
            let goes_on = flow == Flow::On;
            let takes = best.as_ref().is_none_or(|(_, other, longest)| {
                let other_goes_on = *other == Flow::On;
                if self.guess {
                    (steps, goes_on) > (*longest, other_goes_on)
                } else {
                    (goes_on, steps) >= (other_goes_on, *longest)
                }
            });
            if takes {
                best = Some((own, flow, steps));
            }
        }
        let (own, flow, steps) = best.expect("there are blocks");
        *frame = own;
        self.steps = before + steps;
        flow
    }

    fn switch(
        &mut self,
        frame: &mut Frame<'a>,
        selector: Handle<Expression>,
        cases: &'a [naga::SwitchCase],
    ) -> Flow {
        let flow = match self.value(frame, selector) {
            U(selected) => {
                let suits = |case: &naga::SwitchCase| case.value == SwitchValue::U32(selected);
                let first = cases.iter().position(suits);
                let default = |case: &naga::SwitchCase| case.value == SwitchValue::Default;
                let first = first.or(cases.iter().position(default));
                let first = first.expect("a switch has a default");
                let falls = cases[first..].iter().take_while(|case| case.fall_through);
                let last = first + falls.count();
                let mut flow = Flow::On;
                for case in &cases[first..=last] {
                    flow = self.block(frame, &case.body);
                    if flow != Flow::On {
                        break;
                    }
                }
                flow
            }
            _ => {
                let bodies: Vec<&Block> = cases.iter().map(|case| &case.body).collect();
                self.either(frame, &bodies)
            }
        };
        match flow {
            Flow::Break => Flow::On,
            flow => flow,
        }
    }

    fn rounds(
        &mut self,
        frame: &mut Frame<'a>,
        body: &'a Block,
        continuing: &'a Block,
        break_if: Option<Handle<Expression>>,
    ) -> Flow {
        while self.steps <= MOST {
            let before = self.steps;
            match self.block(frame, body) {
                Flow::Break => return Flow::On,
                flow @ Flow::Return(_) => return flow,
                Flow::On | Flow::Continue => {}
            }
            self.block(frame, continuing);
            self.steps = self.steps.max(before + 1);
            if break_if.is_some_and(|end| self.value(frame, end) == B(true)) {
                return Flow::On;
            }
        }
        Flow::Return(Unknown)
    }

    /// A value that was computed before, or that needs no computing.
    fn value(&self, frame: &Frame<'a>, handle: Handle<Expression>) -> Value {
        let at = |root| {
            At(Place {
                root,
                path: Vec::new(),
            })
        };
        match &frame.function.expressions[handle] {
            Expression::Literal(_)
            | Expression::Constant(_)
            | Expression::Override(_)
            | Expression::ZeroValue(_) => self.constant(&frame.function.expressions, handle),
            Expression::FunctionArgument(i) => frame.arguments[*i as usize].clone(),
            Expression::LocalVariable(local) => at(Root::Local(local.index())),
            Expression::GlobalVariable(global) => at(Root::Global(*global)),
            // What consists of constants and the workgroup's size is computed nowhere else.
            _ => (frame.values[handle.index()].clone())
                .unwrap_or_else(|| self.emitted(frame, handle)),
        }
    }

    fn constant(&self, of: &naga::Arena<Expression>, handle: Handle<Expression>) -> Value {
        match &of[handle] {
            Expression::Literal(Literal::U32(value)) => U(*value),
            Expression::Literal(Literal::I32(value)) => I(*value),
            Expression::Literal(Literal::F32(value)) => F(*value),
            Expression::Literal(Literal::Bool(value)) => B(*value),
            Expression::Constant(constant) => {
                let init = self.module.constants[*constant].init;
                self.constant(&self.module.global_expressions, init)
            }
            Expression::Override(_) => U(self.dispatched.workgroup_size),
            Expression::ZeroValue(ty) => self.zero(*ty),
            Expression::Compose { ty, components } => {
                let parts = components.iter().map(|part| self.constant(of, *part));
                self.composed(*ty, parts.collect())
            }
            Expression::Splat { size, value } => {
                Many(vec![self.constant(of, *value); *size as usize])
            }
            _ => Unknown,
        }
    }

    fn composed(&self, ty: Handle<naga::Type>, parts: Vec<Value>) -> Value {
        let TypeInner::Vector { size, .. } = self.module.types[ty].inner else {
            return Many(parts);
        };
        let flat = parts.into_iter().flat_map(|part| match part {
            Many(members) => members,
            one => vec![one],
        });
        let flat: Vec<Value> = flat.collect();
        match flat.len() == size as usize {
            true => Many(flat),
            false => Unknown,
        }
    }

    fn load(&self, frame: &Frame<'a>, pointer: Handle<Expression>) -> Value {
        let At(place) = self.value(frame, pointer) else {
            return Unknown;
        };
        let global = match place.root {
            Root::Local(i) => return member(&frame.locals[i], &place.path),
            Root::Global(global) => &self.module.global_variables[global],
        };
        if global.space == naga::AddressSpace::Uniform {
            return member(&self.params(global.ty), &place.path);
        }
        let name = global.name.as_deref().unwrap_or_default();
        let Some(known) = (self.world)(name) else {
            return Unknown;
        };
        let is_array = matches!(self.module.types[global.ty].inner, TypeInner::Array { .. });
        member(
            &known,
            &place.path[usize::from(is_array && !place.path.is_empty())..],
        )
    }

    /// The parameters of the dispatch.
    fn params(&self, ty: Handle<naga::Type>) -> Value {
        let word = |at: usize, kind| {
            let bytes: [u8; 4] = self.dispatched.params[at..at + 4].try_into().expect("four");
            match kind {
                ScalarKind::Float => F(f32::from_le_bytes(bytes)),
                _ => U(u32::from_le_bytes(bytes)),
            }
        };
        let TypeInner::Struct { members, .. } = &self.module.types[ty].inner else {
            return word(0, ScalarKind::Uint);
        };
        let of = |own: &naga::StructMember| {
            let at = own.offset as usize;
            match self.module.types[own.ty].inner {
                TypeInner::Scalar(scalar) => word(at, scalar.kind),
                TypeInner::Vector { size, scalar } => {
                    let words = (0..size as usize).map(|i| word(at + 4 * i, scalar.kind));
                    Many(words.collect())
                }
                _ => Unknown,
            }
        };
        Many(members.iter().map(of).collect())
    }

    /// A bool that is a number or chooses one.
    fn known(&self, value: &Value) -> Value {
        match value {
            Unknown => B(self.guess),
            value => value.clone(),
        }
    }

    fn emitted(&self, frame: &Frame<'a>, handle: Handle<Expression>) -> Value {
        let value = |handle| self.value(frame, handle);
        let step = |base, i: Option<usize>| match value(base) {
            At(mut place) => {
                place.path.push(i);
                At(place)
            }
            base => member(&base, &[i]),
        };
        match &frame.function.expressions[handle] {
            Expression::Compose { ty, components } => {
                self.composed(*ty, components.iter().copied().map(value).collect())
            }
            Expression::Splat { size, value: one } => Many(vec![value(*one); *size as usize]),
            Expression::Swizzle {
                size,
                vector,
                pattern,
            } => {
                let vector = value(*vector);
                let picked = pattern[..*size as usize].iter();
                Many(
                    picked
                        .map(|c| member(&vector, &[Some(*c as usize)]))
                        .collect(),
                )
            }
            Expression::Access { base, index } => match value(*index) {
                U(i) => step(*base, Some(i as usize)),
                I(i) => step(*base, usize::try_from(i).ok()),
                _ => step(*base, None),
            },
            Expression::AccessIndex { base, index } => step(*base, Some(*index as usize)),
            Expression::Load { pointer } => self.load(frame, *pointer),
            Expression::Unary { op, expr } => {
                each(&value(*expr), &Unknown, &|a, _| match (op, a) {
                    (UnaryOperator::LogicalNot, B(a)) => B(!a),
                    (UnaryOperator::Negate, F(a)) => F(-a),
                    (UnaryOperator::Negate, I(a)) => I(-a),
                    (UnaryOperator::BitwiseNot, U(a)) => U(!a),
                    _ => Unknown,
                })
            }
            Expression::Binary { op, left, right } => {
                each(&value(*left), &value(*right), &|a, b| binary(*op, a, b))
            }
            Expression::Select {
                condition,
                accept,
                reject,
            } => self.selected(&value(*condition), &value(*accept), &value(*reject)),
            Expression::Math { fun, arg, arg1, .. } => {
                let other = arg1.map_or(Unknown, value);
                each(&value(*arg), &other, &|a, b| match (fun, a) {
                    (MathFunction::Min, a) => extreme(true, a, b),
                    (MathFunction::Max, a) => extreme(false, a, b),
                    (MathFunction::FirstLeadingBit, U(a)) => {
                        a.checked_ilog2().map_or(U(u32::MAX), U)
                    }
                    (MathFunction::FirstTrailingBit, U(a)) if *a > 0 => U(a.trailing_zeros()),
                    (MathFunction::CountOneBits, U(a)) => U(a.count_ones()),
                    _ => Unknown,
                })
            }
            Expression::As { expr, kind, .. } => each(&value(*expr), &Unknown, &|a, _| match (
                kind,
                self.known_as_bool(frame, *expr, a),
            ) {
                (ScalarKind::Uint, B(a)) => U(u32::from(a)),
                (ScalarKind::Uint, U(a)) => U(a),
                (ScalarKind::Uint, I(a)) => U(a as u32),
                (ScalarKind::Sint, U(a)) => I(a as i32),
                (ScalarKind::Float, U(a)) => F(a as f32),
                _ => Unknown,
            }),
            _ => Unknown,
        }
    }

    fn selected(&self, condition: &Value, accept: &Value, reject: &Value) -> Value {
        match self.known(condition) {
            B(true) => accept.clone(),
            B(false) => reject.clone(),
            Many(conditions) => {
                let own = |i, of: &Value| match of {
                    Many(_) => member(of, &[Some(i)]),
                    _ => Unknown,
                };
                let each = conditions.iter().enumerate();
                Many(
                    each.map(|(i, c)| self.selected(c, &own(i, accept), &own(i, reject)))
                        .collect(),
                )
            }
            _ => Unknown,
        }
    }

    /// The guess for a bool that is not known, where one is turned into a number; else the value.
    fn known_as_bool(&self, frame: &Frame<'a>, handle: Handle<Expression>, value: &Value) -> Value {
        match &frame.function.expressions[handle] {
            Expression::Binary { op, .. }
                if *value == Unknown
                    && matches!(
                        op,
                        BinaryOperator::Less
                            | BinaryOperator::LessEqual
                            | BinaryOperator::Greater
                            | BinaryOperator::GreaterEqual
                            | BinaryOperator::Equal
                            | BinaryOperator::NotEqual
                            | BinaryOperator::LogicalAnd
                            | BinaryOperator::LogicalOr
                    ) =>
            {
                B(self.guess)
            }
            Expression::CallResult(function)
                if *value == Unknown && self.gives_a_bool(*function) =>
            {
                B(self.guess)
            }
            _ => value.clone(),
        }
    }

    fn gives_a_bool(&self, function: Handle<Function>) -> bool {
        let result = &self.module.functions[function].result;
        result.as_ref().is_some_and(|result| {
            matches!(&self.module.types[result.ty].inner,
                TypeInner::Scalar(scalar) if scalar.kind == ScalarKind::Bool)
        })
    }
}
