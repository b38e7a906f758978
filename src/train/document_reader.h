// The documents of a corpus, in parts of bounded size, whatever they came in: a text file (one document, or several
// between separator lines) or JSONL (one a line). Also decides which documents are for validation.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "train/input_files.h"

namespace espalier {

/// A stretch of one document; the parts of a document come one after the other.
struct DocumentPart {
  std::string text;
  bool begins = false, ends = false;  ///< the first, the last part of its document
  bool validation = false;
};

struct DocumentReaderOptions {
  std::string text_field = "text";  ///< of a JSONL object
  std::string separator;            ///< a line that ends a document of a text file; empty: none
  bool skip_bad = false;            ///< pass over JSONL lines without text, instead of an Error
  double val_fraction = 0;          ///< share of the documents; of a corpus that is one text, its last bytes
  uint64_t seed = 0;                ///< of the choice
  size_t part_bytes = size_t{1} << 18;
};

class DocumentReader {
 public:
  /// Where a text may be cut without a change to its tokens; 0: nowhere (Tokenizer::safe_cut).
  using Cut = std::function<size_t(std::string_view)>;

  struct Counts {
    int64_t files = 0, documents = 0, bytes = 0;
    int64_t bad_lines = 0, binary_files = 0;  // passed over
  };

  DocumentReader(std::vector<InputFile> files, DocumentReaderOptions options, Cut cut);
  ~DocumentReader();

  /// The next part, or false at the end. A part is longer than part_bytes only where the text has no place to cut.
  /// Empty documents are passed over. Throws Error kBadData naming file and line for a line that is no JSON object with
  /// the field as a string (unless skip_bad), and kIo.
  bool next(DocumentPart& part);

  const Counts& counts() const { return counts_; }

 private:
  struct JsonParser;
  /// What was read and not given out.
  std::string_view rest() const { return std::string_view(pending_).substr(at_); }
  bool open_next_file();
  bool read_more();
  void begin_document();
  bool emit(DocumentPart& part, size_t bytes, bool ends);
  void skip(size_t bytes);
  bool next_of_text(DocumentPart& part);
  bool next_of_jsonl(DocumentPart& part);
  size_t find_separator(size_t& end) const;
  bool next_line();
  bool parse_line();

  std::vector<InputFile> files_;
  DocumentReaderOptions options_;
  Cut cut_;
  Counts counts_;

  size_t next_file_ = 0;
  const InputFile* info_ = nullptr;
  std::optional<FileReader> file_;
  bool at_end_ = false;   // of the file
  std::string pending_;   // the blocks read last
  size_t at_ = 0;         // what of pending_ was given out
  int64_t document_ = 0;  // number within the file
  bool begins_ = true, validation_ = false;
  bool line_start_ = true;   // rest() starts at the start of a line
  uint64_t given_ = 0;       // bytes of the file given out
  uint64_t tail_begin_ = 0;  // where the validation part of a lone text begins; 0: no such part

  std::unique_ptr<JsonParser> json_;
  int64_t line_ = 0;
  std::string document_text_;  // the present JSONL document
  size_t text_at_ = 0;         // what of it was given out
};

}  // namespace espalier
