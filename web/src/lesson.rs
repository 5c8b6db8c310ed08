//! What a teacher's link shows of the page: of settings and recipe `?show=steps,batch_size` has these alone, and `?hide=compare,runs`
//! leaves parts out. What is hidden keeps the value that the link gives it. It makes a page simple; it locks nothing.

use crate::knobs::{MAIN, MORE};
use crate::link;

/// Parts of the page that can be left out, beside the settings.
const PARTS: [&str; 6] = ["data", "recipe", "more", "compare", "runs", "take-home"];

/// What is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lesson {
    /// Settings and parts that are left out.
    hidden: Vec<String>,
    /// The only settings, where some are named.
    only: Vec<String>,
    /// What of the link makes no sense.
    pub(crate) problems: Vec<String>,
}

impl Lesson {
    /// The lesson of the page's link; one that shows everything where it asks for none.
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

    /// Whether a part, or the setting of this path, is shown.
    pub(crate) fn shows(&self, name: &str) -> bool {
        let is_asked_for = self.only.is_empty() || self.only.iter().any(|only| only == name);
        !self.hidden.iter().any(|hidden| hidden == name) && (is_asked_for || !is_of_settings(name))
    }

    /// Whether one of the rarer settings is asked for by name.
    pub(crate) fn asks_for_more(&self) -> bool {
        self.only
            .iter()
            .any(|only| MORE.iter().any(|knob| knob.key == only))
    }
}

/// Whether it is the recipe or a setting: what `show` leaves out where it is not named.
fn is_of_settings(name: &str) -> bool {
    name == "recipe" || MAIN.iter().chain(&MORE).any(|knob| knob.key == name)
}
