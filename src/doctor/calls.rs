//! Calls and assignments of the code in a text.

use super::tokens::Token;

/// Value of an argument or of a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Text(String),
    /// A name that the text does not explain; the class, where it is called; `None` and `True` too.
    Name(String),
}

impl Value {
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Name(text) | Self::Text(text) => text,
            Self::Number(_) => "",
        }
    }
}

/// `name(a, key=b)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Call {
    /// Name of what is called, without its modules.
    pub(super) name: String,
    /// Arguments in their order, with their names where they have some.
    pub(super) arguments: Vec<(Option<String>, Value)>,
    /// First and last token.
    pub(super) span: (usize, usize),
}

impl Call {
    /// The argument of this name, or else the one at this place.
    pub(super) fn argument(&self, name: &str, place: usize) -> Option<&Value> {
        let named = self
            .arguments
            .iter()
            .find(|(key, _)| key.as_deref() == Some(name));
        let placed = || self.arguments.get(place).filter(|(key, _)| key.is_none());
        named.or_else(placed).map(|(_, value)| value)
    }

    pub(super) fn number(&self, name: &str, place: usize) -> Option<f64> {
        self.argument(name, place).and_then(Value::number)
    }

    /// Numbers among the arguments, those in brackets too.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let numbers = self.arguments.iter().filter(|(key, _)| key.is_none());
        numbers.filter_map(|(_, value)| value.number()).collect()
    }
}

/// What the code of a text calls and assigns.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub(super) calls: Vec<Call>,
    /// Names that are given a number or a call, in the order of the text, with the place of the token.
    pub(super) names: Vec<(String, Value, usize)>,
}

impl Code {
    pub(super) fn read(tokens: &[Token]) -> Self {
        let mut code = Self::default();
        code.assign(tokens);
        for at in 0..tokens.len() {
            let (Some(name), Some(open)) = (tokens[at].word(), tokens.get(at + 1)) else {
                continue;
            };
            if open.is('(') {
                let end = closing(tokens, at + 1);
                let arguments = code.arguments(&tokens[at + 2..end]);
                let name = name.to_owned();
                code.calls.push(Call {
                    name,
                    arguments,
                    span: (at, end),
                });
            }
        }
        code
    }

    /// The last call of a name.
    pub(super) fn call(&self, name: &str) -> Option<&Call> {
        self.calls.iter().rev().find(|call| call.name == name)
    }

    /// Names that are assigned: `a = 64 * 8`, `a, b = 64, 128`, `miner = miners.TripletMarginMiner(..)`.
    fn assign(&mut self, tokens: &[Token]) {
        let mut start = 0;
        for line in tokens.split(|token| *token == Token::End) {
            let place = start;
            start += line.len() + 1;
            let Some(at) = line.iter().position(|token| token.is('=')) else {
                continue;
            };
            if line.get(at + 1).is_some_and(|next| next.is('=')) {
                continue;
            }
            let names: Vec<&str> = line[..at].iter().filter_map(Token::word).collect();
            let values: Vec<&[Token]> = split(&line[at + 1..]);
            let is_plain = line[..at]
                .iter()
                .all(|token| token.word().is_some() || token.is(',') || token.is('.'));
            if is_plain && names.len() == values.len() {
                for (name, value) in names.iter().zip(values) {
                    let value = self.value(value);
                    self.names.push(((*name).to_owned(), value, place));
                }
            } else if let Some(name) = names.last()
                && !line[..at]
                    .iter()
                    .any(|token| token.is('(') || token.is('['))
            {
                let value = self.value(&line[at + 1..]);
                self.names.push(((*name).to_owned(), value, place));
            }
        }
    }

    fn arguments(&self, tokens: &[Token]) -> Vec<(Option<String>, Value)> {
        let tokens: Vec<Token> = tokens
            .iter()
            .filter(|token| **token != Token::End)
            .cloned()
            .collect();
        let mut found = Vec::new();
        for part in split(&tokens) {
            match part {
                [Token::Word(name), Token::Mark('='), rest @ ..] => {
                    found.push((Some(name.clone()), self.value(rest)));
                }
                // A shape in brackets: its numbers stand for themselves.
                [Token::Mark('(' | '['), inner @ .., Token::Mark(')' | ']')] => {
                    found.extend(
                        split(inner)
                            .into_iter()
                            .map(|part| (None, self.value(part))),
                    );
                }
                [] => {}
                part => found.push((None, self.value(part))),
            }
        }
        found
    }

    /// Value of an expression: a number, a product, a power, a known name, a text, or the name of a call.
    fn value(&self, tokens: &[Token]) -> Value {
        let one = |token: &Token| match token {
            Token::Number(number) => Some(*number),
            Token::Word(word) => self.named(word),
            _ => None,
        };
        match tokens {
            [Token::Quoted(text), ..] => Value::Text(text.clone()),
            [
                Token::Word(int),
                Token::Mark('('),
                inner,
                Token::Mark(')'),
                ..,
            ] if int == "int" => {
                one(inner).map_or_else(|| Value::Name(String::new()), Value::Number)
            }
            [a, Token::Mark('*'), Token::Mark('*'), b, ..] => match (one(a), one(b)) {
                (Some(a), Some(b)) => Value::Number(a.powf(b)),
                _ => Value::Name(String::new()),
            },
            [a, Token::Mark('<'), Token::Mark('<'), b, ..] => match (one(a), one(b)) {
                (Some(a), Some(b)) => Value::Number(a * 2f64.powf(b)),
                _ => Value::Name(String::new()),
            },
            [a, Token::Mark('*'), rest @ ..] if one(a).is_some() => {
                match (one(a), self.value(rest).number()) {
                    (Some(a), Some(b)) => Value::Number(a * b),
                    _ => Value::Name(String::new()),
                }
            }
            [a, rest @ ..]
                if one(a).is_some()
                    && !rest
                        .first()
                        .is_some_and(|next| next.is('.') || next.is('[')) =>
            {
                Value::Number(one(a).unwrap_or_default())
            }
            _ => Value::Name(called(tokens)),
        }
    }

    /// The last number that a name was given.
    fn named(&self, name: &str) -> Option<f64> {
        let known = self.names.iter().rev().find(|(known, _, _)| known == name);
        known.and_then(|(_, value, _)| value.number())
    }

    /// The class that a name or a call stands for.
    pub(super) fn class_of(&self, value: &Value) -> String {
        let name = value.name();
        let known = self.names.iter().rev().find(|(known, _, _)| known == name);
        match known {
            Some((_, Value::Name(class), _)) if class != name && !class.is_empty() => class.clone(),
            _ => name.to_owned(),
        }
    }
}

/// The name before the first bracket, without its modules: `miners.TripletMarginMiner(0.1)`.
fn called(tokens: &[Token]) -> String {
    let mut name = String::new();
    for token in tokens {
        match token {
            Token::Word(word) => name.clone_from(word),
            Token::Mark('.') => {}
            _ => break,
        }
    }
    name
}

/// Place of the bracket that closes the one at `open`; of the end, if the text breaks off.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 || at > open + 400 {
            return at;
        }
    }
    tokens.len()
}

/// Parts between commas that stand in no bracket.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
            Token::Mark(',') if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            // A comment ends what is assigned.
            Token::Mark('#') if depth == 0 => {
                parts.push(&tokens[start..at]);
                return parts;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    #[test]
    fn arguments_are_found_by_name_and_by_place() {
        let text = "\
batch, dim = 64, 128
memory_size = batch * 1024
miner = miners.TripletMarginMiner(margin=0.1, type_of_triplets='semihard')
loss = losses.CrossBatchMemory(losses.TripletMarginLoss(0.2), dim,
    memory_size=memory_size, miner=miner)
x = torch.randn(2 ** 10, 1 << 4)";
        let code = Code::read(&tokens(text));
        let xbm = code.call("CrossBatchMemory").expect("is called");
        assert_eq!(xbm.number("embedding_size", 1), Some(128.0));
        assert_eq!(xbm.number("memory_size", 2), Some(65_536.0));
        let class = |name| code.class_of(xbm.argument(name, 0).expect("is given"));
        assert_eq!(
            [class("loss"), class("miner")],
            ["TripletMarginLoss", "TripletMarginMiner"]
        );
        let miner = code.call("TripletMarginMiner").expect("is called");
        assert_eq!(
            miner
                .argument("type_of_triplets", 1)
                .expect("is given")
                .name(),
            "semihard"
        );
        assert_eq!(
            code.call("randn").expect("is called").numbers(),
            [1024.0, 16.0]
        );
    }
}
