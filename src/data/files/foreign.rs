//! Files of other programs: told by their ending or their first bytes, and refused with the line of Python that makes a file
//! of them that is read.

use super::Format;
use super::named_file::extension;
use super::packed::GZIP;
use crate::base::error::Error;

/// Bytes that decide whether a text has two bytes for each character.
const LOOKED_AT: usize = 256;

/// Bytes from the start of a file that tell what it is.
#[cfg(not(target_arch = "wasm32"))]
pub(super) const START_BYTES: u64 = 4096;

/// A format that is not read here.
struct Foreign {
    endings: &'static [&'static str],
    /// Bytes that its files begin with.
    magic: &'static [&'static [u8]],
    /// Description, to follow the file's name.
    what: &'static str,
    /// Advice: `FILE` stands for the name and `STEM` for the name without its ending.
    how: &'static str,
}

/// A file is told by its ending first, then by its first bytes.
const FORMATS: [Foreign; 20] = [
    Foreign {
        endings: &[
            "jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "heic",
        ],
        magic: &[b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"],
        what: "a picture, and Nearfar trains on vectors",
        how: "make a vector of each picture first, by the lines of Python in docs/guide.md under Pictures",
    },
    Foreign {
        endings: &["loom"],
        magic: &[],
        what: "a Loom file, whose matrix has a column for each cell",
        how: "save it as AnnData with scanpy: `import scanpy as sc; sc.read_loom(\"FILE\").write(\"STEM.h5ad\")`",
    },
    Foreign {
        endings: &["hdf"],
        magic: &[b"\x89HDF\r\n\x1a\n"],
        what: "an HDF5 file",
        how: "name it STEM.h5",
    },
    Foreign {
        endings: &[],
        magic: &[b"PAR1"],
        what: "a Parquet file",
        how: "name it STEM.parquet",
    },
    Foreign {
        endings: &["feather"],
        magic: &[b"ARROW1", b"FEA1"],
        what: "an Arrow file",
        how: "save it as Parquet with pandas: `import pandas as pd; pd.read_feather(\"FILE\").to_parquet(\"STEM.parquet\")`",
    },
    Foreign {
        endings: &["arrow"],
        magic: &[b"\xff\xff\xff\xff"],
        what: "an Arrow stream, as Hugging Face's datasets saves it",
        how: "save it as Parquet: `import datasets; datasets.Dataset.from_file(\"FILE\").to_parquet(\"STEM.parquet\")`",
    },
    Foreign {
        endings: &["fvecs"],
        magic: &[],
        what: "a file of vectors, each behind its length",
        how: "save them as NPY, and give their labels in a second file: `import numpy as np; a = np.fromfile(\"FILE\", \"f4\"); \
              np.save(\"STEM.npy\", a.reshape(-1, a.view(\"i4\")[0] + 1)[:, 1:])`",
    },
    Foreign {
        endings: &["vec", "w2v"],
        magic: &[],
        what: "a text of word vectors, whose rows have a word and no class",
        how: "save the vectors as NPY, and give their labels in a second file, in the order of STEM_words.txt: `import numpy as np; \
              rows = [line.rstrip().split(\" \") for line in open(\"FILE\", encoding=\"utf-8\")][1:]; \
              np.save(\"STEM.npy\", np.array([row[1:] for row in rows], \"f4\")); \
              open(\"STEM_words.txt\", \"w\", encoding=\"utf-8\").write(\"\\n\".join(row[0] for row in rows))`",
    },
    Foreign {
        endings: &["json"],
        magic: &[],
        what: "a JSON file",
        how: "save it as Parquet with pandas: `import pandas as pd; pd.read_json(\"FILE\").to_parquet(\"STEM.parquet\")`",
    },
    Foreign {
        endings: &["pkl", "pickle"],
        magic: &[b"\x80\x02", b"\x80\x03", b"\x80\x04\x95", b"\x80\x05\x95"],
        what: "a pickle, which can run any program when it is opened and is never loaded",
        how: "where you trust it, save a table as Parquet, or arrays as NPZ: `import numpy as np, pandas as pd; \
              t = pd.read_pickle(\"FILE\"); t.to_parquet(\"STEM.parquet\") if isinstance(t, pd.DataFrame) else \
              np.savez(\"STEM.npz\", **(t if isinstance(t, dict) else {\"X\": t}))`",
    },
    Foreign {
        endings: &["pt", "pth"],
        magic: &[],
        what: "a file of torch",
        how: "save its tensors as NPZ: `import numpy as np, torch; t = torch.load(\"FILE\", map_location=\"cpu\"); \
              t = t if isinstance(t, dict) else {\"X\": t}; np.savez(\"STEM.npz\", **{k: np.asarray(v.detach() if \
              torch.is_tensor(v) else v) for k, v in t.items() if torch.is_tensor(v) or isinstance(v, list)})`",
    },
    Foreign {
        endings: &["xlsx", "xls", "ods"],
        magic: &[b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"],
        what: "a spreadsheet",
        how: "save the sheet as CSV in the spreadsheet program, or with pandas: `import pandas as pd; \
              pd.read_excel(\"FILE\").to_csv(\"STEM.csv\", index=False)`",
    },
    Foreign {
        endings: &["rds", "rda", "rdata"],
        magic: &[],
        what: "a file of R",
        how: "save the table as CSV in R: `write.csv(as.data.frame(readRDS(\"FILE\")), \"STEM.csv\", row.names = FALSE)`",
    },
    Foreign {
        endings: &["mat"],
        magic: &[b"MATLAB 5.0"],
        what: "a MATLAB file",
        how: "save the arrays as NPZ: `import numpy as np; from scipy.io import loadmat; m = loadmat(\"FILE\"); \
              np.savez(\"STEM.npz\", X=m[\"X\"], y=m[\"y\"].ravel())`",
    },
    Foreign {
        endings: &["arff"],
        magic: &[],
        what: "an ARFF file of Weka",
        how: "save it as CSV with scipy and pandas: `import pandas as pd; from scipy.io import arff; \
              pd.DataFrame(arff.loadarff(\"FILE\")[0]).map(lambda v: v.decode() if isinstance(v, bytes) else \
              v).to_csv(\"STEM.csv\", index=False)`",
    },
    Foreign {
        endings: &["libsvm", "svmlight", "svm"],
        magic: &[],
        what: "a file of LIBSVM, whose lines hold the numbers that are not zero",
        how: "save it as NPZ with scikit-learn: `import numpy as np; from sklearn.datasets import load_svmlight_file; \
              X, y = load_svmlight_file(\"FILE\"); np.savez(\"STEM.npz\", X=X.toarray(), y=y.astype(int))`",
    },
    Foreign {
        endings: &["data"],
        magic: &[],
        what: "a file whose ending does not say what is in it",
        how: "where it has a row a line, with commas, semicolons or tabs between the cells, name it STEM.csv",
    },
    Foreign {
        endings: &["bz2", "xz", "zst"],
        magic: &[b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"],
        what: "a compressed file",
        how: "unpack it first; a table also with pandas: `import pandas as pd; pd.read_csv(\"FILE\").to_csv(\"STEM\", \
              index=False)`",
    },
    Foreign {
        endings: &[],
        magic: &[GZIP],
        what: "a compressed file",
        how: "name it FILE.gz, and it is unpacked as it is read",
    },
    Foreign {
        endings: &["zip"],
        magic: &[b"PK\x03\x04", b"PK\x05\x06"],
        what: "a ZIP archive",
        how: "unpack it first, or where `np.savez` wrote it name it STEM.npz",
    },
];

/// Content found in files that are named as tables: description and advice.
const NPY: (&str, &str) = ("an NPY file", "name it STEM.npy");
const PAGE: (&str, &str) = (
    "a web page, not a table",
    "download the file that the page speaks of",
);
const JSON: (&str, &str) = (
    "JSON, not a table",
    "where it has an object a line, name it STEM.jsonl; where it is one list, save it as Parquet with pandas: \
     `import pandas as pd; pd.read_json(\"FILE\").to_parquet(\"STEM.parquet\")`",
);
const UTF_16: (&str, &str) = (
    "text in UTF-16, not in UTF-8",
    "save it again with pandas: `import pandas as pd; pd.read_csv(\"FILE\", encoding=\"utf-16\", sep=None, \
     engine=\"python\").to_csv(\"STEM_utf8.csv\", index=False)`",
);
const UTF_32: (&str, &str) = (
    "text in UTF-32, not in UTF-8",
    "save it again with pandas: `import pandas as pd; pd.read_csv(\"FILE\", encoding=\"utf-32\", sep=None, \
     engine=\"python\").to_csv(\"STEM_utf8.csv\", index=False)`",
);

/// Refusal of a file of another program, of which `start` are the first bytes; none if it may be read.
pub(super) fn refusal(name: &str, start: &[u8]) -> Option<Error> {
    let (ending, read) = (extension(name), Format::of(name));
    // A file with the mark of an Arrow file is no stream, whatever it is called.
    let ending = match ending.as_str() {
        "arrow" if start.starts_with(b"ARROW1") => "feather",
        ending => ending,
    };
    let by_ending = FORMATS
        .iter()
        .find(|format| format.endings.contains(&ending));
    let by_magic = || {
        let begins = |format: &&Foreign| format.magic.iter().any(|magic| start.starts_with(magic));
        // A damaged archive of arrays gets its own message elsewhere.
        FORMATS
            .iter()
            .find(begins)
            .filter(|format| read != Some(Format::Npz) || format.what != "a ZIP archive")
            .filter(|format| read != Some(Format::Hdf5) || format.what != "an HDF5 file")
            .filter(|format| read != Some(Format::Parquet) || format.what != "a Parquet file")
    };
    if let Some(format) = by_ending.or_else(by_magic) {
        return Some(said(name, (format.what, format.how)));
    }
    if read != Some(Format::Table) {
        return None;
    }
    let text = start.trim_ascii_start();
    let begins = |word: &[u8]| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let looked_at = &start[..start.len().min(LOOKED_AT)];
    let nuls = looked_at.iter().filter(|byte| **byte == 0).count();
    let found = if start.starts_with(b"\x93NUMPY") {
        NPY
    } else if start.starts_with(b"\xff\xfe\0\0") || start.starts_with(b"\0\0\xfe\xff") {
        UTF_32
    } else if start.starts_with(b"\xff\xfe")
        || start.starts_with(b"\xfe\xff")
        || (4 * nuls > looked_at.len() && nuls < looked_at.len())
    {
        UTF_16
    } else if begins(b"<!doctype") || begins(b"<html") || begins(b"<?xml") {
        PAGE
    } else if begins(b"{") || begins(b"[{") || begins(b"[[") {
        JSON
    } else {
        return None;
    };
    Some(said(name, found))
}

/// The refusal: description of the file, and advice with the file's name in it.
fn said(name: &str, (what, how): (&str, &str)) -> Error {
    let (file, stem) = (in_python(name), in_python(stem(name)));
    let parts: Vec<String> = how
        .split("STEM")
        .map(|part| part.replace("FILE", &file))
        .collect();
    Error::Data(format!("{name}: {what}: {}", parts.join(&stem)))
}

/// Pandas code that reads a table with `arguments`, applies `change` and saves it again.
pub(super) fn saved_again(name: &str, arguments: &str, change: &str) -> String {
    let (file, stem) = (in_python(name), in_python(stem(name)));
    format!(
        "`import pandas as pd; pd.read_csv(\"{file}\"{arguments}){change}.to_csv(\"{stem}_clean.csv\", index=False)`"
    )
}

/// Pandas code that saves a Parquet file again, with Snappy as most are.
#[cfg(feature = "parquet")]
pub(super) fn as_snappy(name: &str) -> String {
    let (file, stem) = (in_python(name), in_python(stem(name)));
    format!(
        "save it again with pandas: `import pandas as pd; pd.read_parquet(\"{file}\").to_parquet(\"{stem}_snappy.parquet\", \
         compression=\"snappy\")`"
    )
}

/// A name without its ending.
fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// A name escaped for a Python string in double quotes.
pub(super) fn in_python(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, start: &[u8]) -> Option<String> {
        refusal(name, start).map(|error| error.to_string())
    }

    #[test]
    fn a_file_of_another_program_is_refused_with_the_line_that_saves_it() {
        for (name, start, message) in [
            (
                "cat.JPG",
                &b""[..],
                "cat.JPG: a picture, and Nearfar trains on vectors: make a vector of each picture first, by the lines of Python in \
                 docs/guide.md under Pictures",
            ),
            (
                "a/cells.loom",
                b"\x89HDF\r\n\x1a\n",
                "a/cells.loom: a Loom file, whose matrix has a column for each cell: save it as AnnData with scanpy: \
                 `import scanpy as sc; sc.read_loom(\"a/cells.loom\").write(\"a/cells.h5ad\")`",
            ),
            (
                "cells.csv.xz",
                b"\xfd7zXZ\x00",
                "cells.csv.xz: a compressed file: unpack it first; a table also with pandas: `import pandas as pd; \
                 pd.read_csv(\"cells.csv.xz\").to_csv(\"cells.csv\", index=False)`",
            ),
            (
                "cells.csv",
                b"\x1f\x8b\x08",
                "cells.csv: a compressed file: name it cells.csv.gz, and it is unpacked as it is read",
            ),
            (
                "a \"b\".json",
                b"[]",
                "a \"b\".json: a JSON file: save it as Parquet with pandas: `import pandas as pd; \
                 pd.read_json(\"a \\\"b\\\".json\").to_parquet(\"a \\\"b\\\".parquet\")`",
            ),
        ] {
            assert_eq!(told(name, start).as_deref(), Some(message));
        }
    }

    #[test]
    fn what_a_file_is_shows_in_its_first_bytes_too() {
        for (name, start, part) in [
            ("x.csv", &b"\xff\xfex\0,\0"[..], "text in UTF-16"),
            ("x.csv", b"x\0,\0y\0\n\0", "text in UTF-16"),
            ("x.csv", b"\xff\xfe\0\0x\0\0\0", "text in UTF-32"),
            ("x.csv", b"\x93NUMPY\x01\0", "an NPY file: name it x.npy"),
            ("x.csv", b"PK\x03\x04", "name it x.npz"),
            ("x.csv", b"\x1f\x8b\x08", "a compressed file"),
            ("x.csv", b"\n<!DOCTYPE html>", "a web page"),
            ("x.csv", b" {\"a\": 1}", "JSON, not a table"),
            ("x.npy", b"\x80\x04\x95", "a pickle"),
            ("x.csv", b"\x89HDF\r\n\x1a\n", "an HDF5 file: name it x.h5"),
            ("x.csv", b"PAR1", "a Parquet file: name it x.parquet"),
            ("x.arrow", b"ARROW1\0\0", "pd.read_feather(\"x.arrow\")"),
            (
                "x.arrow",
                b"\xff\xff\xff\xff\x58",
                "Dataset.from_file(\"x.arrow\")",
            ),
            ("x.fvecs", b"\x02\0\0\0", "a file of vectors"),
        ] {
            let message = told(name, start).unwrap_or_default();
            assert!(message.contains(part), "{name}: {message}");
        }
        for (name, start) in [
            ("x.csv", &b"x,label\n1,a\n"[..]),
            ("x.csv", b"[x],label\n"),
            ("x.npz", b"PK\x03\x04"),
            ("x.npz.gz", b"PK\x03\x04"),
            ("x.h5ad", b"\x89HDF\r\n\x1a\n"),
            ("x.pq", b"PAR1"),
            ("x.npy", b"\x93NUMPY\x01\0"),
            ("make.py", b"import numpy"),
        ] {
            assert_eq!(told(name, start), None);
        }
    }
}
