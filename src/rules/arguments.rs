//! [`Argument`]: the values that a number among the arguments of a loss, a miner, an optimizer or the like may have. Each file of one
//! lists its own.

use crate::base::error::{Error, Result};

/// A number among the arguments of `T`, with its bounds.
pub(crate) struct Argument<T> {
    value: fn(&T) -> f64,
    range: Range,
}

/// Values that a number may have.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    name: &'static str,
    least: f64,
    most: f64,
    /// The least value itself is refused.
    above: bool,
}

impl Range {
    fn check(self, part: &str, value: f64) -> Result<()> {
        let Self {
            name, least, most, ..
        } = self;
        if (least..=most).contains(&value) && !(self.above && value == least) {
            return Ok(());
        }
        let range = match self.above {
            true => format!("above {least} and at most {most}"),
            false => format!("between {least} and {most}"),
        };
        Err(Error::Config(format!(
            "{part}.{name} is {value}: it must be {range}"
        )))
    }
}

impl<T> Argument<T> {
    /// A number from `least` to `most`, both inclusive.
    pub(super) const fn between(
        name: &'static str,
        [least, most]: [f64; 2],
        value: fn(&T) -> f64,
    ) -> Self {
        let range = Range {
            name,
            least,
            most,
            above: false,
        };
        Self { value, range }
    }

    /// A number above `least`, `most` at most.
    pub(super) const fn above(name: &'static str, bounds: [f64; 2], value: fn(&T) -> f64) -> Self {
        let mut argument = Self::between(name, bounds, value);
        argument.range.above = true;
        argument
    }

    /// A similarity or a distance, or a difference of them.
    pub(super) const fn margin(name: &'static str, value: fn(&T) -> f64) -> Self {
        Self::between(name, [-4.0, 4.0], value)
    }

    /// A factor in exponents.
    pub(super) const fn scale(name: &'static str, value: fn(&T) -> f64) -> Self {
        Self::between(name, [1e-3, 1e4], value)
    }

    /// A divisor in exponents.
    pub(super) const fn temperature(name: &'static str, value: fn(&T) -> f64) -> Self {
        Self::between(name, [1e-3, 1e3], value)
    }

    /// A learning rate.
    pub(super) const fn lr(name: &'static str, value: fn(&T) -> f64) -> Self {
        Self::between(name, [0.0, 10.0], value)
    }

    /// Proxies of each class.
    pub(super) const fn per_class(name: &'static str, value: fn(&T) -> f64) -> Self {
        Self::between(name, [1.0, 1024.0], value)
    }
}

/// A loss, a miner, a sampler, an optimizer or a schedule: the facts of it that stand in its file.
pub(crate) trait Part: Sized + 'static {
    /// Its class in PML or torch; empty if there is none, and then no script is written for it.
    const PML: &'static str;
    /// That class is given the distance of the settings.
    const PML_TAKES_DISTANCE: bool = true;
    /// Its numbers; a sampler's have bounds by the batch, which it checks itself.
    const ARGUMENTS: &'static [Argument<Self>] = &[];
}

/// The facts of a loss, a miner or the like, whichever it is.
pub(crate) trait Facts {
    /// Its class in PML or torch, if there is one.
    fn pml(&self) -> Option<&'static str>;

    /// Tells if that class is given the distance of the settings.
    fn pml_takes_distance(&self) -> bool;

    /// The range and the value of one of its numbers; `None` past the last.
    fn number(&self, place: usize) -> Option<(Range, f64)>;
}

impl<T: Part> Facts for T {
    fn pml(&self) -> Option<&'static str> {
        Some(T::PML).filter(|class| !class.is_empty())
    }

    fn pml_takes_distance(&self) -> bool {
        T::PML_TAKES_DISTANCE
    }

    fn number(&self, place: usize) -> Option<(Range, f64)> {
        let argument = T::ARGUMENTS.get(place)?;
        Some((argument.range, (argument.value)(self)))
    }
}

/// Checks every number of a part of the settings against its range.
///
/// # Errors
/// [`Error::Config`] for the first that is out of it, with the range.
pub(super) fn check(part: &str, facts: &dyn Facts) -> Result<()> {
    let mut numbers = (0..).map_while(|place| facts.number(place));
    numbers.try_for_each(|(range, value)| range.check(part, value))
}

#[cfg(test)]
mod tests {
    use crate::rules::config::TrainConfig;
    use crate::rules::losses::Loss;
    use crate::rules::miners::Miner;
    use crate::rules::optimizers::Optimizer;
    use crate::rules::samplers::Sampler;
    use crate::rules::schedules::Schedule;

    #[test]
    fn every_number_of_a_part_of_the_settings_has_a_range() {
        let of = |part: &'static str, all: &[(&'static str, &str)]| -> Vec<_> {
            all.iter().map(|(name, _)| (part, *name)).collect()
        };
        let mut numbers = 0;
        for (part, name) in [
            of("loss", &Loss::ALL),
            of("miner", &Miner::ALL),
            of("sampler", &Sampler::ALL),
            of("optimizer", &Optimizer::ALL),
            of("schedule", &Schedule::ALL),
        ]
        .concat()
        {
            let config = TrainConfig::default().with_set(&format!("{part}.name={name}"));
            let config = config.expect("is listed");
            for (key, value) in config.to_value()[part].as_object().expect("has a name") {
                if !value.is_number() || key == "seed" {
                    continue;
                }
                let set = config.with_set(&format!("{part}.{key}=1000000007"));
                let error = set.expect("is a number").check();
                let error = error.expect_err("is out of its range").to_string();
                let start = format!("{part}.{key} is 1000000007: it must be ");
                assert!(error.starts_with(&start), "{name}: {error}");
                numbers += 1;
            }
        }
        assert!(numbers > 40, "{numbers}");
    }
}
