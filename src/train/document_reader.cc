#include "train/document_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace espalier {
namespace {

constexpr size_t kBinaryProbe = 8192;         // a zero byte among the first ones makes a file binary, as in git
constexpr size_t kMaxPart = size_t{1} << 29;  // what a tokenizer and memory can take at once
constexpr size_t npos = std::string::npos;

}  // namespace

struct DocumentReader::JsonParser {
  simdjson::dom::parser parser;
  std::string line;
};

DocumentReader::DocumentReader(std::vector<InputFile> files, DocumentReaderOptions options, Cut cut)
    : files_(std::move(files)),
      options_(std::move(options)),
      cut_(std::move(cut)),
      json_(std::make_unique<JsonParser>()) {
  // One text has no other documents to validate on, so its end is set aside.
  if (files_.size() == 1 && !files_[0].jsonl && options_.separator.empty() && options_.val_fraction > 0)
    tail_begin_ = std::max<uint64_t>(1, uint64_t(std::llround(double(files_[0].bytes) * (1 - options_.val_fraction))));
}

DocumentReader::~DocumentReader() = default;

bool DocumentReader::next(DocumentPart& part) {
  for (;;) {
    if (!info_ && !open_next_file()) return false;
    if (info_->jsonl ? next_of_jsonl(part) : next_of_text(part)) return true;
    info_ = nullptr;
  }
}

bool DocumentReader::open_next_file() {
  for (; next_file_ < files_.size();) {
    info_ = &files_[next_file_++];
    file_.emplace(info_->path);
    at_end_ = false;
    pending_.clear();
    at_ = 0;
    document_ = line_ = 0;
    given_ = 0;
    line_start_ = true;
    begin_document();
    read_more();
    if (!info_->walked || std::memchr(pending_.data(), 0, std::min(pending_.size(), kBinaryProbe)) == nullptr) {
      ++counts_.files;
      return true;
    }
    ++counts_.binary_files;
  }
  info_ = nullptr;
  return false;
}

/// Reads another block; false at the end of the file.
bool DocumentReader::read_more() {
  if (at_end_) return false;
  pending_.erase(0, at_);
  at_ = 0;
  const size_t before = pending_.size();
  if (before > kMaxPart)
    throw error(Code::kUnsupported,
                "reading {}: {} bytes without a place to cut them; documents may be that long only where they have "
                "spaces and the tokenizer's pattern is gpt2, llama3 or qwen2",
                info_->path, before);
  pending_.resize(before + options_.part_bytes);
  const size_t got = file_->read(pending_.data() + before, options_.part_bytes);
  pending_.resize(before + got);
  counts_.bytes += int64_t(got);
  at_end_ = got < options_.part_bytes;
  return got > 0;
}

void DocumentReader::skip(size_t bytes) {
  at_ += bytes;
  given_ += bytes;
}

/// The next part is the first of a new document; a hash of its name decides what it is for.
void DocumentReader::begin_document() {
  begins_ = true;
  if (tail_begin_ > 0) {
    validation_ = document_ > 0;
  } else {
    const uint64_t hash = hash64(fmt::format("{}:{}", info_->name, document_), options_.seed);
    validation_ = double(hash >> 11) * 0x1p-53 < options_.val_fraction;
  }
  ++document_;
}

/// Gives out the next bytes of the text. An empty last part of a document that has begun is a part; an empty document
/// is none (false).
bool DocumentReader::emit(DocumentPart& part, size_t bytes, bool ends) {
  const bool is_part = bytes > 0 || !begins_;
  if (is_part) {
    part.text = rest().substr(0, bytes);
    part.begins = begins_;
    part.ends = ends;
    part.validation = validation_;
    counts_.documents += begins_;
    if (bytes > 0) line_start_ = part.text.back() == '\n';
    skip(bytes);
  }
  begins_ = false;
  if (ends) begin_document();
  return is_part;
}

/// The next line that is the separator: where it starts; `end` is behind it. npos where there is none.
size_t DocumentReader::find_separator(size_t& end) const {
  const std::string_view text = rest(), separator = options_.separator;
  if (separator.empty()) return npos;
  for (size_t at = 0; (at = text.find(separator, at)) != npos; ++at) {
    if (at == 0 ? !line_start_ : text[at - 1] != '\n') continue;
    end = at + separator.size();
    if (text.substr(end, 2) == "\r\n") ++end;
    if (end < text.size() && text[end] == '\n') return ++end, at;
    if (end == text.size() && at_end_) return at;
  }
  return npos;
}

bool DocumentReader::next_of_text(DocumentPart& part) {
  for (;;) {
    size_t behind = 0;
    const size_t separator = find_separator(behind);
    if (separator != npos) {
      const bool is_part = emit(part, separator, true);
      skip(behind - separator);
      line_start_ = true;
      if (is_part) return true;
      continue;
    }
    const std::string_view text = rest();
    // The lone text's validation part begins behind the line in which tail_begin_ falls.
    const bool tail_is_next = tail_begin_ > given_ && document_ == 1 && tail_begin_ <= given_ + text.size();
    if (tail_is_next) {
      const size_t newline = text.find('\n', size_t(tail_begin_ - given_) - 1);
      if (newline != npos) return emit(part, newline + 1, true);
    }
    if (at_end_) return (!text.empty() || !begins_) && emit(part, text.size(), true);
    if (text.size() >= options_.part_bytes && !tail_is_next) {
      // A line that is not complete may turn out to be a separator.
      const size_t whole_lines = options_.separator.empty() ? text.size() : text.rfind('\n') + 1;
      const size_t cut = cut_(text.substr(0, whole_lines));
      if (cut > 0) return emit(part, cut, false);
    }
    read_more();
  }
}

/// Moves the next line to json_->line; false at the end of the file.
bool DocumentReader::next_line() {
  size_t searched = 0, newline;
  while ((newline = rest().find('\n', searched)) == npos) {
    searched = rest().size();
    if (!read_more()) break;
  }
  if (rest().empty()) return false;
  json_->line = rest().substr(0, newline);
  skip(std::min(rest().size(), newline == npos ? npos : newline + 1));
  ++line_;
  return true;
}

/// The document of the present line, into document_text_; false where it is to be passed over.
bool DocumentReader::parse_line() {
  std::string& line = json_->line;
  if (line.find_first_not_of(" \t\r") == npos) return false;
  line.reserve(line.size() + simdjson::SIMDJSON_PADDING);
  std::string_view text;
  const auto failure = json_->parser.parse(line.data(), line.size(), false)[options_.text_field].get(text);
  if (!failure) {
    document_text_ = text;
    text_at_ = 0;
    return true;
  }
  if (!options_.skip_bad)
    throw error(Code::kBadData,
                "reading {}:{}: expected a JSON object with the string \"{}\", found {} ({}); name the field with "
                "text_field, or pass over such lines with skip_bad",
                info_->path, line_, options_.text_field, line.size() > 60 ? line.substr(0, 60) + "..." : line,
                simdjson::error_message(failure));
  ++counts_.bad_lines;
  return false;
}

bool DocumentReader::next_of_jsonl(DocumentPart& part) {
  while (begins_) {
    if (!next_line()) return false;
    if (parse_line() && !document_text_.empty()) break;
    begin_document();  // each line counts, so that a bad one does not shift the others
  }
  const std::string_view text = std::string_view(document_text_).substr(text_at_);
  size_t cut = 0;
  for (size_t window = options_.part_bytes; cut == 0 && window < text.size(); window *= 2)
    cut = cut_(text.substr(0, window));
  const bool ends = cut == 0;
  part.text = ends ? text : text.substr(0, cut);
  part.begins = begins_;
  part.ends = ends;
  part.validation = validation_;
  counts_.documents += begins_;
  text_at_ += part.text.size();
  begins_ = false;
  if (ends) begin_document();
  return true;
}

}  // namespace espalier
