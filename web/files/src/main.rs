//! Reads and writes files in a worker of its own: every format of rows and labels, every piece of an exported run, and tracebacks. The
//! page's worker fetches this wasm with the first of them, asks each such worker one question and ends it. That frees its memory; and if
//! a file crashes it, nothing else falls.
#![cfg(target_arch = "wasm32")]

mod asked;
mod wire;

use asked::{Answer, Asked, CODE, Read, Refused};
use js_sys::{Array, Float32Array, JsString, Uint8Array};
use nearfar::{
    Choice, Columns, Error, Format, Hdf5File, Labelled, Labels, Missing, NamedFile, ParquetFile,
    Piece, Result, Results, Table, TableReader, Taken, TakenFile, Working, archive, diagnose,
    saved_run,
};
use wasm_bindgen::prelude::*;
use web_sys::{Blob, DedicatedWorkerGlobalScope, File, FileReaderSync, MessageEvent};

/// Bytes of a table that are read at once.
const PART_BYTES: f64 = 4194304.0;

fn main() {
    let scope: DedicatedWorkerGlobalScope = js_sys::global().unchecked_into();
    let asked = scope.clone();
    let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        let Ok(parts) = event.data().dyn_into::<Array>() else {
            return;
        };
        match wire::read(&parts.get(0), CODE) {
            Some(question) => answer(&asked, question, &parts),
            // A page of another version can read no answer: an empty one makes it say so.
            None => drop(asked.post_message(&Array::new())),
        }
    });
    scope.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    on_message.forget();
}

fn answer(scope: &DedicatedWorkerGlobalScope, question: Asked, parts: &Array) {
    let mut files = parts.iter().filter_map(|part| part.dyn_into::<File>().ok());
    match (question, files.next()) {
        (
            Asked::Rows {
                label,
                columns,
                missing,
            },
            Some(data),
        ) => {
            let choice = choice(label.as_deref(), &columns, missing);
            let say = |working| post(scope, &Answer::Working(working), None);
            let (columns, mut read) = rows(&data, files.next().as_ref(), choice, say);
            let values = read.as_mut().map(|read| std::mem::take(&mut read.values));
            let values = Float32Array::from(&values.unwrap_or_default()[..]).buffer();
            let read = Box::new((columns, read.map_err(refused)));
            post(scope, &Answer::Rows(read), Some(values.into()));
        }
        (
            Asked::Labels {
                label,
                columns,
                missing,
                of,
                rows,
            },
            Some(file),
        ) => {
            let choice = choice(label.as_deref(), &columns, missing);
            let read = Box::new(labels(&file, choice, &of, rows));
            post(scope, &Answer::Labels(read), None);
        }
        (Asked::SavedRun, Some(file)) => {
            let name = file.name();
            let read = content(&name, &file).and_then(|bytes| saved_run(NamedFile { name, bytes }));
            let bytes = handed_over(read.as_deref().unwrap_or_default());
            let read = read.map(drop).map_err(|error| error.to_string());
            post(scope, &Answer::SavedRun(read), bytes);
        }
        (Asked::Sizes { pieces, side }, None) => {
            let results = taken(parts).and_then(Results::new).ok();
            let bytes = |piece: Piece| piece.about_bytes(results.as_ref()?, side);
            let sizes = pieces.into_iter().map(|piece| (piece, bytes(piece)));
            let sizes = sizes.collect();
            let code = results.as_ref().map(Results::code).into_iter().flatten();
            let code = code.map(|(program, piece, lines)| (program.to_owned(), piece, lines));
            post(scope, &Answer::Sizes(sizes, code.collect()), None);
        }
        (Asked::Make { piece }, None) => hand_over(scope, parts, piece),
        (Asked::Diagnose { text }, None) => {
            let lines = diagnose(&text).lines().into_iter();
            let lines = lines.map(|(heading, line)| (heading.to_owned(), line));
            post(scope, &Answer::Diagnosed(lines.collect()), None);
        }
        _ => {}
    }
}

/// Makes a piece of the results, and answers with its name and its bytes.
fn hand_over(scope: &DedicatedWorkerGlobalScope, parts: &Array, piece: Piece) {
    let results = taken(parts).and_then(Results::new);
    let made = results.and_then(|results| make(&results, piece));
    let bytes = handed_over(made.as_ref().map_or(&[][..], |file| &file.bytes));
    let name = made
        .map(|file| file.path)
        .map_err(|error| error.to_string());
    post(scope, &Answer::Made(name), bytes);
}

/// The choices by which a file is read.
fn choice<'a>(
    labels: Option<&'a str>,
    columns: &'a Columns,
    missing: Option<Missing>,
) -> Choice<'a> {
    Choice {
        labels,
        columns: Some(columns),
        missing,
        ..Choice::default()
    }
}

/// Bytes as a buffer that a message hands over.
fn handed_over(bytes: &[u8]) -> Option<JsValue> {
    Some(Uint8Array::from(bytes).buffer().into())
}

fn post(scope: &DedicatedWorkerGlobalScope, answer: &Answer, handed_over: Option<JsValue>) {
    let handed_over: Array = handed_over.into_iter().collect();
    let message = Array::of1(&wire::written(answer, CODE)).concat(&handed_over);
    scope
        .post_message_with_transfer(&message, &handed_over)
        .ok();
}

/// Reads the rows of a file with their labels, and the names that the labels could have.
fn rows(
    data: &File,
    labels: Option<&File>,
    choice: Choice<'_>,
    say: impl Fn(Working),
) -> (Vec<String>, Result<Labelled>) {
    let mut columns = Vec::new();
    let read = || {
        let labels = labels.map(whole).transpose()?;
        if let Some(labels) = &labels {
            columns = Labelled::label_choices(labels);
        }
        let (name, blob) = (data.name(), data.clone().into());
        let format = Format::of(&name).filter(|_| !name.to_lowercase().ends_with(".gz"));
        let (own, read) = match format {
            Some(Format::Hdf5) => {
                let data = Hdf5File::of_blob(name, blob)?;
                let own = || data.label_choices();
                (
                    labels.is_none().then(own),
                    data.labelled(labels.as_ref(), choice, say),
                )
            }
            Some(Format::Parquet) => {
                let data = ParquetFile::of_blob(name, blob)?;
                let own = || data.label_choices();
                (
                    labels.is_none().then(own),
                    data.labelled(labels.as_ref(), choice, say),
                )
            }
            Some(format) if format.is_table() => {
                let own = choice.own(labels.is_some());
                let table = table(data, own, say)?;
                let own = labels.is_none().then(|| table.header().to_vec());
                (own, Labelled::of_table(table, labels.as_ref(), choice))
            }
            _ => {
                let data = whole(data)?;
                let own = || Labelled::label_choices(&data);
                (
                    labels.is_none().then(own),
                    Labelled::read(&data, labels.as_ref(), choice),
                )
            }
        };
        if let Some(own) = own {
            columns = own;
        }
        read
    };
    let read = read();
    (columns, read)
}

/// Reads a table part by part, so that the file is never in memory as a whole.
fn table(file: &File, choice: Choice<'_>, say: impl Fn(Working)) -> Result<Table> {
    let (name, total) = (file.name(), file.size());
    let mut reader = TableReader::new(&name, total as u64, choice)?;
    let mut at = 0.0;
    while at < total {
        let end = total.min(at + PART_BYTES);
        let part = file.slice_with_f64_and_f64(at, end);
        let part = part.map_err(|_| unreadable(&name))?;
        reader.push(&content(&name, &part)?)?;
        at = end;
        say(Working {
            what: format!("reading {name}"),
            unit: "MiB".to_owned(),
            done: at as u64 >> 20,
            total: (total as u64).div_ceil(1 << 20),
        });
    }
    reader.finish()
}

/// Reads labels for the `rows` rows of the file `of`, and the names that the labels could have.
fn labels(file: &File, choice: Choice<'_>, of: &str, rows: usize) -> Read<Labels> {
    let file = match whole(file) {
        Ok(file) => file,
        Err(error) => return (Vec::new(), Err(refused(error))),
    };
    let read = Labelled::read_labels(&file, choice, of, rows);
    (Labelled::label_choices(&file), read.map_err(refused))
}

fn refused(error: Error) -> Refused {
    (error.to_string(), error.cure())
}

/// Reads a whole file, and unpacks it if its name ends in `.gz`.
fn whole(file: &File) -> Result<NamedFile> {
    let name = file.name();
    let bytes = content(&name, file)?;
    NamedFile { name, bytes }.unpacked()
}

fn content(name: &str, blob: &Blob) -> Result<Vec<u8>> {
    let reader = FileReaderSync::new();
    let content = reader.and_then(|reader| reader.read_as_array_buffer(blob));
    let content = content.map_err(|_| unreadable(name))?;
    Ok(Uint8Array::new(&content.into()).to_vec())
}

fn unreadable(name: &str) -> Error {
    Error::Data(format!(
        "{name}: the file cannot be read any more: choose it again"
    ))
}

/// Unpacks the run of a message: its text in part 1, its arrays in the parts after it.
fn taken(parts: &Array) -> Result<Taken> {
    let text = parts.get(1).unchecked_into::<JsString>();
    let arrays = parts.iter().skip(2);
    let arrays = arrays.map(|part| Uint8Array::new(&part).to_vec()).collect();
    Taken::unpack(&String::from(text), arrays)
}

/// Makes a piece as one file: a ZIP archive if the piece has several files.
fn make(results: &Results, piece: Piece) -> Result<TakenFile> {
    let mut files = piece.files(results)?;
    if files.len() == 1 {
        return Ok(files.remove(0));
    }
    Ok(TakenFile {
        path: format!("{}.zip", piece.name()),
        bytes: archive(&files)?,
    })
}
