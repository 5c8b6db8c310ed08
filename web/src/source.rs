//! Data: what the page asks for, and what it does once the worker has read or refused it.
//!
//! The page keeps the handles of files, not their content: they are read again for another label column or a new worker.

use std::collections::BTreeMap;
use std::slice;

use leptos::prelude::*;
use nearfar::{
    Bytes, Columns, Cure, Format, Link, Marks, Missing, Role, RowSource, Sampler, Split,
    TableColumn, TrainConfig,
};
use web_sys::File;

use crate::link;
use crate::protocol::{Command, DataSummary};
use crate::request::{Asked, Reading, Source, names};
use crate::session::Session;
use crate::state::LabelChoice;
use crate::words::{LISTED, grouped, shown_name};

/// Most bytes of files that are read whole, together: a WebAssembly memory ends at 4 GiB, and while a file is read, its content and
/// its rows lie there.
const MOST_BYTES: u64 = 1 << 30;

/// File endings of an exported run: all of its files, or its checkpoint alone.
pub(crate) const SAVED: [&str; 2] = [".zip", ".bin"];

/// Most problems that are named, and most characters of a link's text that are repeated.
const NAMED: usize = 3;
const LONGEST: usize = 60;

impl Session {
    /// Asks for a sample.
    pub(crate) fn choose_sample(&self, name: String) {
        self.state.error.set(None);
        self.offer(Source::Sample(name));
    }

    /// Asks for files, unless they are more than a page can hold.
    pub(crate) fn choose_files(&self, files: Vec<File>) {
        self.state.error.set(None);
        if let Some(said) = only_pictures(&files) {
            return self.state.brought.pictures.set(Some(said));
        }
        let (pictures, files): (Vec<File>, Vec<File>) = files.into_iter().partition(is_picture);
        if let [file] = &files[..]
            && SAVED.iter().any(|ending| file.name().ends_with(ending))
        {
            return self.offer(Source::Saved(file.clone()));
        }
        let from = self.stream_from.get_value();
        // Of an HDF5 or Parquet file only what is asked for is read; a table of text is read part by part, and its numbers are half
        // as long as it or less.
        let in_place = |file: &File| {
            matches!(
                Format::of(&file.name()),
                Some(Format::Hdf5 | Format::Parquet)
            )
        };
        let is_open = files.len() == 1 && in_place(&files[0]);
        let held = |file: &File| match Format::of(&file.name()) {
            _ if is_open || RowSource::streams(&file.name(), file.size() as u64, from) => 0.0,
            Some(Format::Table | Format::JsonLines) => file.size() / 2.0,
            _ => file.size(),
        };
        let bytes: f64 = files.iter().map(held).sum();
        if bytes as u64 <= MOST_BYTES {
            let names: Vec<String> = files.iter().map(File::name).collect();
            let reading = self.reading_waited_for(&names);
            let mut reading = reading
                .or_else(|| self.reading_of_link(&names))
                .unwrap_or_default();
            reading.pictures = pictures;
            return self.offer(Source::Files(files, reading));
        }
        let message = format!(
            "{}: {}, and a page can hold {} of arrays or a table twice as long: save the features as NPY, use fewer rows, \
             or the command line (nearfar train)",
            names(&files),
            Bytes(files.iter().map(|file| file.size()).sum::<f64>() as u64),
            Bytes(MOST_BYTES)
        );
        self.state.say(self.refused(message));
    }

    /// Settings that hold once one of these files is read, if the page waits for it.
    fn awaited_of(&self, names: &[String]) -> Option<Vec<String>> {
        let awaited = self.awaited.get_value();
        let (_, sets) = awaited.filter(|(name, _)| names.contains(name))?;
        Some(sets)
    }

    /// The choices by which these files are read, if a link waits for one of them.
    fn reading_of_link(&self, names: &[String]) -> Option<Reading> {
        let (config, _) = TrainConfig::default().with_sets(&self.awaited_of(names)?);
        Some(Reading {
            columns: Columns::default().with(&config),
            ..Reading::default()
        })
    }

    /// Reads the files that were refused, or else those on the page, with another label column.
    pub(crate) fn choose_label(&self, column: String) {
        self.read_otherwise(|reading| reading.label = Some(column));
    }

    /// Reads these files with other marks in their numbers.
    pub(crate) fn choose_marks(&self, marks: Marks) {
        self.read_otherwise(|reading| reading.columns.marks = marks);
    }

    /// Reads these files with another treatment of cells without a number.
    pub(crate) fn choose_missing(&self, missing: Missing) {
        self.read_otherwise(|reading| reading.missing = missing);
    }

    /// Gives a column of the page's files another role.
    pub(crate) fn choose_role(&self, line: &TableColumn, role: Role) {
        let (Some((files, held)), Some(data)) =
            (self.held_files(), self.state.data.get_untracked())
        else {
            return;
        };
        self.state.error.set(None);
        let name = &line.column.name;
        let mut config = self.state.config.get_untracked();
        match line.with(&config).role {
            Role::Group => config = config.with_set("group=null").unwrap_or(config),
            Role::Split if config.group.is_some() => config.split = Split::ByGroup,
            Role::Split => config.split = Split::Random,
            _ => {}
        }
        let mut reading = held.clone();
        let Columns {
            features, ignore, ..
        } = &mut reading.columns;
        ignore.retain(|other| other != name);
        features.retain(|other| other != name);
        let is_feature = line.column.role == Role::Feature;
        let mut set = None;
        match role {
            Role::Feature if is_feature || held.columns.ignore.contains(name) => {}
            Role::Feature => {
                // The features that there are stay.
                let lines = data.columns.iter();
                let others = lines.filter(|line| line.with(&config).role == Role::Feature);
                *features = others.map(|line| line.column.name.clone()).collect();
                features.push(name.clone());
            }
            Role::Label => reading.label = Some(name.clone()),
            Role::Id | Role::Ignored if features.is_empty() && is_feature => {
                ignore.push(name.clone());
            }
            Role::Id | Role::Ignored => {}
            Role::Group => set = Some(format!("group={name}")),
            Role::Split => set = Some(format!("split=column:{name}")),
        }
        (config.features, config.ignore) = (features.clone(), ignore.clone());
        if let Some(Ok(with)) = set.map(|set| config.with_set(&set)) {
            config = with;
        }
        reading.columns.apart = config.columns();
        let sets = config.differences(&data.default_config).into_iter();
        let sets = sets.map(|(key, value)| format!("{key}={value}")).collect();
        self.awaited.set_value(Some((data.name.clone(), sets)));
        self.offer(Source::Files(files, reading));
    }

    fn read_otherwise(&self, change: impl FnOnce(&mut Reading)) {
        self.state.error.set(None);
        let waiting = self.candidate.get_value();
        if let Some((files, mut reading)) = waiting.or(self.held_files()) {
            change(&mut reading);
            self.offer(Source::Files(files, reading));
        }
    }

    /// The files on the page, and the choices by which they were read.
    pub(crate) fn held_files(&self) -> Option<(Vec<File>, Reading)> {
        self.held.with_value(|held| match held {
            Some(Source::Files(files, reading)) => Some((files.clone(), reading.clone())),
            _ => None,
        })
    }

    /// Asks for data; if that would end a run, the person is asked first.
    fn offer(&self, source: Source) {
        if untrack(|| self.state.is_busy()) {
            self.state.question.set(Some(source.name()));
            self.offered.set_value(Some(source));
        } else {
            self.ask(source, None);
        }
    }

    /// Opens the data that waits for the person's answer, or forgets it.
    pub(crate) fn answer(&self, open: bool) {
        self.state.question.set(None);
        let offered = self.offered.try_update_value(Option::take).flatten();
        if let Some(source) = offered.filter(|_| open) {
            self.ask(source, None);
        }
    }

    /// The message on data that was not opened, and that the data on the page stays in use.
    pub(crate) fn refused(&self, message: String) -> String {
        match &*self.state.data.read_untracked() {
            Some(data) => format!(
                "{message}\nNothing was changed: {} is still in use, with its settings.",
                shown_name(&data.name)
            ),
            None => message,
        }
    }

    /// Asks once more for the data on the page, in a new worker.
    pub(crate) fn ask_again(&self) {
        if let Some(source) = self.held.get_value() {
            self.ask(source, None);
        }
    }

    /// Opens the data and the settings of a link.
    pub(crate) fn follow(&self, link: Link) {
        self.state.error.set(None);
        if !untrack(|| self.state.is_dead()) {
            self.wake();
        }
        self.say_problems("The link", link.problems);
        let here = self.state.data.get_untracked();
        match (link.data, here) {
            // Data that is on the page needs no reading.
            (None, Some(data)) => self.settle(&data, &link.sets),
            (Some(name), Some(data)) if data.name == name => self.settle(&data, &link.sets),
            (Some(name), _) if name.starts_with("sample:") => {
                let name = name.trim_start_matches("sample:").to_owned();
                self.ask(Source::Sample(name), Some(link.sets));
            }
            (None, None) => {
                let name = LISTED[0].to_owned();
                self.ask(Source::Sample(name), Some(link.sets));
            }
            (Some(name), here) => {
                // Without data the page shows what the link asks for.
                if here.is_none() {
                    let (config, _) = TrainConfig::default().with_sets(&link.sets);
                    self.state.config.set(config);
                }
                self.state.notice.set(Some(format!(
                    "The link remembers settings, not your file: drop {} again.",
                    start_of(&name)
                )));
                self.awaited.set_value(Some((name, link.sets)));
            }
        }
    }

    pub(crate) fn ask(&self, source: Source, sets: Option<Vec<String>>) {
        self.wake();
        if untrack(|| self.state.is_dead()) {
            return;
        }
        match &source {
            Source::Sample(name) => {
                let config = match &sets {
                    Some(sets) => TrainConfig::default().with_sets(sets).0,
                    None => self.state.config.get_untracked(),
                };
                let (name, seed) = (name.clone(), config.data_seed());
                self.send(&Command::Sample { name, seed }, &[]);
            }
            Source::Files(files, reading) => {
                let Reading {
                    label,
                    missing,
                    columns,
                    ..
                } = reading.clone();
                let stream_from = self.stream_from.get_value();
                let config = TrainConfig::default();
                let awaited = self.awaited_of(&files.iter().map(File::name).collect::<Vec<_>>());
                let config = match sets.as_ref().or(awaited.as_ref()) {
                    Some(sets) => config.with_sets(sets).0,
                    None => config,
                };
                let command = Command::Files {
                    label,
                    columns,
                    splitting: config.splitting(),
                    missing,
                    stream_from,
                };
                self.send(&command, files);
            }
            // An exported run is no data; once it is opened, it asks for its data itself.
            Source::Saved(file) => return self.send(&Command::OpenSaved, slice::from_ref(file)),
        }
        self.asked
            .update_value(|asked| asked.push_back(Asked { source, sets }));
        self.state.reading.update(|commands| *commands += 1);
    }

    /// Takes the data of the request that is answered next.
    pub(crate) fn take_data(&self, data: DataSummary) {
        let asked = self.answered();
        self.state.notice.set(None);
        let awaited = self
            .awaited
            .get_value()
            .filter(|(name, _)| *name == data.name);
        match asked.sets.or(awaited.map(|(_, sets)| sets)) {
            Some(sets) => self.settle(&data, &sets),
            None => self.carry(&data),
        }
        if let Source::Files(_, Reading { columns, .. }) = &asked.source {
            self.state.config.update(|config| {
                (config.features, config.ignore) =
                    (columns.features.clone(), columns.ignore.clone());
            });
        }
        self.awaited.set_value(None);
        self.candidate.set_value(None);
        self.held.set_value(Some(asked.source));
        self.state.take(data);
        self.ask_pictures();
    }

    /// Asks which rows the pictures are of that came with the files.
    fn ask_pictures(&self) {
        let pictures = self.pictures();
        if !pictures.is_empty() {
            let names = pictures.iter().map(File::name).collect();
            self.send(&Command::FilesOfRows(names), &[]);
        }
    }

    /// Pictures that came with the files on the page.
    fn pictures(&self) -> Vec<File> {
        let held = self.held_files();
        held.map_or_else(Vec::new, |(_, reading)| reading.pictures)
    }

    /// Takes in the rows that the pictures are of, and says how many are of none.
    pub(crate) fn take_pictures(&self, rows: &[Option<u32>]) {
        let pictures = self.pictures();
        let of_rows = pictures.iter().zip(rows);
        let found: BTreeMap<u32, File> = of_rows
            .filter_map(|(file, row)| Some(((*row)?, file.clone())))
            .collect();
        let [all, known] = [pictures.len(), found.len()].map(|count| grouped(count as u64));
        let mut of_none = pictures.iter().zip(rows).filter(|(_, row)| row.is_none());
        let of_none = of_none.next().map_or_else(String::new, |(file, _)| {
            format!(" No row, or more than one, names {}.", file.name())
        });
        self.state.tell(format!(
            "Pictures: {known} of {all} are shown beside the rows that name them.{of_none}"
        ));
        self.state.brought.of_rows.set_value(found);
    }

    /// Takes the refusal of the request that is answered next.
    pub(crate) fn take_refusal(&self, message: String, columns: Vec<String>, cure: Cure) {
        self.run_next.set_value(false);
        self.go_on_next.set_value(false);
        let asked = self.answered();
        // Reading was stopped, by the person or by a later request.
        if message.is_empty() {
            return;
        }
        self.state.say(self.refused(message));
        let Source::Files(files, reading) = asked.source else {
            return;
        };
        let here = self.held_files().is_some_and(|(held, _)| held == files);
        if here {
            self.awaited.set_value(None);
        }
        // Another label column, or a choice on cells or marks, may be all that these files need. The files on the page keep theirs.
        if !here && (columns.len() > 1 || cure != Cure::Nothing) {
            self.state.label.set(LabelChoice {
                columns,
                current: None,
                of: Some(names(&files)),
                missing: (cure == Cure::Missing).then_some(reading.missing),
                cure,
            });
            self.candidate.set_value(Some((files, reading)));
        } else {
            let data = self.state.data.read_untracked();
            self.state.label.set(LabelChoice::of(data.as_ref()));
            self.candidate.set_value(None);
        }
    }

    fn answered(&self) -> Asked {
        let first = self.asked.try_update_value(|asked| asked.pop_front());
        let first = first.flatten().expect("the worker answers what was asked");
        self.state.reading.update(|commands| *commands -= 1);
        first
    }

    /// Applies the settings of a link, over the defaults of the data.
    fn settle(&self, data: &DataSummary, sets: &[String]) {
        let (config, problems) = settings(data, sets);
        self.state.config.set(config);
        self.say_problems("The link", problems);
    }

    /// Keeps the settings that were changed on the page, over the defaults of the new data, and says which cannot hold there.
    fn carry(&self, data: &DataSummary) {
        let before = self.state.config.get_untracked();
        let old = self.state.data.get_untracked();
        let defaults = old.map_or_else(TrainConfig::default, |old| old.default_config);
        let own = before.differences(&defaults).into_iter();
        let sets: Vec<String> = own.map(|(key, value)| format!("{key}={value}")).collect();
        let (config, problems) = settings(data, &sets);
        self.state.config.set(config);
        if !problems.is_empty() {
            self.state.tell(format!(
                "Not every setting can hold for {}. Back at its default: {}.",
                shown_name(&data.name),
                first_of(problems)
            ));
        }
    }

    fn say_problems(&self, what: &str, problems: Vec<String>) {
        if !problems.is_empty() {
            self.state.say(format!("{what}: {}", first_of(problems)));
        }
    }

    /// Keeps the address in step with the settings.
    pub(crate) fn write_link(&self) {
        if let Some(data) = &*self.state.data.read() {
            link::write(&data.name, &self.state.config.read(), &data.default_config);
        }
    }
}

fn is_picture(file: &File) -> bool {
    file.type_().starts_with("image/")
}

/// Files that are all pictures, in a sentence; `None` if some are not.
fn only_pictures(files: &[File]) -> Option<String> {
    let [first, others @ ..] = files else {
        return None;
    };
    let name = first.name();
    files.iter().all(is_picture).then(|| match others.len() {
        0 => format!("{name} is a picture."),
        others => format!("{name} and {} more are pictures.", grouped(others as u64)),
    })
}

/// Message that a setting names a column that is not there.
fn no_column(key: &str, name: &str) -> String {
    let name = start_of(name);
    format!("{key}: there is no text column \"{name}\"")
}

/// Text of a link, cut if it is long.
fn start_of(text: &str) -> String {
    let mut start: String = text.chars().take(LONGEST).collect();
    if start.len() < text.len() {
        start.push_str("..");
    }
    start
}

/// The first three problems, and the number of the others.
fn first_of(mut problems: Vec<String>) -> String {
    let more = problems.len().saturating_sub(NAMED);
    if more > 0 {
        problems.truncate(NAMED);
        problems.push(format!("and {} more", grouped(more as u64)));
    }
    problems.join("; ")
}

/// The defaults of the data with all given settings that can hold for it, and why the others cannot.
fn settings(data: &DataSummary, sets: &[String]) -> (TrainConfig, Vec<String>) {
    let (mut config, problems) = data.default_config.with_sets(sets);
    let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if let Some(name) = &config.group
        && !data.split_columns.contains(name)
    {
        problems.push(no_column("group", name));
        config = config.with_set("group=null").unwrap_or(config);
    }
    if let Split::Column(name) = &config.split
        && !data.split_columns.contains(name)
    {
        problems.push(no_column("split", name));
        config.split = data.default_config.split.clone();
    }
    if let Sampler::Hierarchical(sampler) = &config.sampler
        && !sampler.outer_label.is_empty()
        && !data.split_columns.contains(&sampler.outer_label)
    {
        problems.push(no_column("sampler.outer_label", &sampler.outer_label));
        config.sampler = data.default_config.sampler.clone();
    }
    (config, problems)
}
