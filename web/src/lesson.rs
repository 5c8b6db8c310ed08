//! The parts of the page that a teacher's link shows: `?show=steps,batch_size` leaves only these of the settings and the recipe,
//! and `?hide=compare,runs` leaves parts out. A setting that is hidden keeps the value that the link gives it. This makes a page
//! simple; it locks nothing.

use crate::knobs::{self, LEARNING, MORE};
use crate::link;

/// Parts of the page that can be left out, beside the settings.
const PARTS: [&str; 6] = ["data", "recipe", "more", "compare", "runs", "take-home"];

/// Settings and parts of the page that are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lesson {
    /// Settings and parts that are left out.
    hidden: Vec<String>,
    /// The only settings that are shown, if any are named.
    only: Vec<String>,
    /// Errors in the link.
    pub(crate) problems: Vec<String>,
}

impl Lesson {
    /// The lesson of the page's link; shows everything if the link asks for none.
    pub(crate) fn read() -> Self {
        let mut lesson = Self::default();
        for (key, names) in link::query() {
            let list = match key.as_str() {
                "hide" => &mut lesson.hidden,
                "show" => &mut lesson.only,
                _ => continue,
            };
            let names = names.split(',').map(|name| name.trim().to_owned());
            for name in names.filter(|name| !name.is_empty()) {
                if is_of_settings(&name) || (key == "hide" && PARTS.contains(&&*name)) {
                    list.push(name);
                } else if key == "hide" {
                    let parts = PARTS.join(", ");
                    lesson.problems.push(format!(
                        "`{name}` cannot be hidden. What can is {parts}, or a setting, such as steps"
                    ));
                } else {
                    lesson
                        .problems
                        .push(format!("`{name}` cannot be shown. What can is `recipe`, or a setting, such as steps"));
                }
            }
        }
        lesson
    }

    /// Tells if a part, or the setting of this path, is shown.
    pub(crate) fn shows(&self, name: &str) -> bool {
        let is_asked_for = self.only.is_empty() || self.only.iter().any(|only| only == name);
        !self.hidden.iter().any(|hidden| hidden == name) && (is_asked_for || !is_of_settings(name))
    }

    /// Tells if settings are asked for by name.
    pub(crate) fn names_some(&self) -> bool {
        self.only.iter().any(|only| only != "recipe")
    }

    /// Tells if one of the rarer settings is asked for by name.
    pub(crate) fn asks_for_more(&self) -> bool {
        self.only
            .iter()
            .any(|only| MORE.iter().chain(&LEARNING).any(|knob| knob.key == only))
    }
}

/// Tells if a name is that of the recipe or of a setting: `show` leaves those out that it does not name.
fn is_of_settings(name: &str) -> bool {
    name == "recipe" || knobs::all().any(|knob| knob.key == name)
}
