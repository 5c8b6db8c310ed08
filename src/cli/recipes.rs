//! `nearfar recipes`: the settings that `train --recipe` starts from.

use clap::Args;
use nearfar::{Recipe, Result};

use super::print_line;

/// List recipes: losses, miners, samplers and memories that belong together
#[derive(Debug, Args)]
pub(super) struct Recipes {}

impl Recipes {
    pub(super) fn run(&self) -> Result<()> {
        for recipe in &Recipe::ALL {
            print_line(format_args!(
                "{}\n    {}\n    For {}.\n    {}\n    {}\n",
                recipe.name,
                recipe.why,
                recipe.suits,
                recipe.sets().join(" "),
                recipe.source
            ));
        }
        print_line("Start from one with `nearfar train --recipe NAME`; --set changes it further.");
        Ok(())
    }
}
