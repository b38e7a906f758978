#include "train/prepare.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/human.h"
#include "base/json.h"
#include "base/json_value.h"
#include "formats/hf_folder.h"
#include "formats/token_dataset.h"
#include "formats/token_shards.h"
#include "models/gguf_tokenizer.h"
#include "text/bpe_trainer.h"
#include "text/split.h"
#include "text/tokenizer.h"
#include "train/document_reader.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPartBytes = size_t{1} << 18;
constexpr size_t kTaskBytes = size_t{1} << 17;  // of text that one thread encodes at a stretch
constexpr int kTasksPerThread = 16;             // read before they are encoded
constexpr const char* kEndToken = "<|endoftext|>";

/// The folder under construction: OUT.tmp, which becomes OUT or vanishes.
class StagingFolder {
 public:
  StagingFolder(const std::string& out, bool overwrite) : out_(fs::path(out) / "") {
    if (out.empty()) throw error(Code::kUsage, "preparing text: no output folder; set out");
    out_ = out_.parent_path();  // without a slash at the end
    staging_ = out_.string() + ".tmp";
    std::error_code failure;
    if (fs::exists(out_, failure) && !(fs::is_directory(out_, failure) && fs::is_empty(out_, failure))) {
      if (!fs::exists(out_ / kPrepareManifest, failure))
        throw error(Code::kUsage, "preparing text: {} exists and was not made by `prepare`; choose another folder",
                    out);
      if (!overwrite)
        throw error(Code::kUsage, "preparing text: {} exists; choose another folder or set overwrite", out);
    }
    fs::remove_all(staging_, failure);
    fs::create_directories(staging_, failure);
    if (failure) throw error(Code::kIo, "creating the folder {}: {}", staging_.string(), failure.message());
  }
  ~StagingFolder() {
    std::error_code ignored;  // a folder that cannot be removed is better than an error about it
    fs::remove_all(staging_, ignored);
  }
  StagingFolder(const StagingFolder&) = delete;

  std::string file(const std::string& name) const { return (staging_ / name).string(); }
  std::string path() const { return staging_.string(); }

  /// Gives the folder its name. An old one is exchanged for it at one stroke, then removed.
  void publish() {
    const bool replaces = path_exists(out_ / kPrepareManifest);
    const int status = ::renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, out_.c_str(), replaces ? RENAME_EXCHANGE : 0);
    if (status != 0) throw errno_error("renaming " + staging_.string() + " to " + out_.string());
  }

 private:
  fs::path out_, staging_;
};

/// The shards of one purpose, one after the other. A document goes on in the next shard where one is full.
class ShardSeries {
 public:
  ShardSeries(const StagingFolder& folder, const char* purpose, TokenShardOptions options, int64_t shard_tokens)
      : folder_(folder), purpose_(purpose), options_(options), shard_tokens_(shard_tokens) {}

  void write(bool begins, std::span<const int32_t> ids) {
    if (begins) fresh_ = true;
    if (ids.empty()) return;
    if (writer_ && writer_->token_count() >= shard_tokens_) finish_shard();
    if (!writer_) {
      result_.shards.push_back({fmt::format("{}-{:05}{}", purpose_, result_.shards.size(), kTokenShardExtension)});
      writer_ = std::make_unique<TokenShardWriter>(folder_.file(result_.shards.back().file), options_);
    }
    if (fresh_) {
      writer_->append(ids);
      ++result_.documents;
    } else {
      writer_->extend(ids);
    }
    fresh_ = false;
  }

  PreparedSplit finish() {
    if (writer_) finish_shard();
    return std::move(result_);
  }

 private:
  void finish_shard() {
    writer_->finish();
    PreparedShard& shard = result_.shards.back();
    shard.tokens = writer_->token_count();
    shard.documents = writer_->document_count();
    result_.tokens += shard.tokens;
    writer_.reset();
  }

  const StagingFolder& folder_;
  std::string purpose_;
  TokenShardOptions options_;
  int64_t shard_tokens_;
  std::unique_ptr<TokenShardWriter> writer_;
  bool fresh_ = true;  // the next ids begin a document
  PreparedSplit result_;
};

DocumentReaderOptions reader_options(const PrepareConfig& config) {
  return {.text_field = config.text_field,
          .separator = config.separator,
          .skip_bad = config.skip_bad,
          .val_fraction = config.val_fraction,
          .seed = uint64_t(config.seed),
          .part_bytes = kPartBytes};
}

/// Loads the tokenizer, or trains one on the documents that are not for validation.
Tokenizer make_tokenizer(Context& context, Progress& progress, const PrepareConfig& config,
                         const std::vector<InputFile>& files) {
  const std::string& given = config.tokenizer;
  if (!given.empty()) return load_tokenizer(is_file(given) ? given : find_model(given));
  DocumentReader reader(files, reader_options(config), last_safe_cut);
  DocumentPart part;
  return train_bpe(context, progress,
                   {.vocab_size = config.vocab_size,
                    .min_frequency = config.min_frequency,
                    .pattern = config.pattern,
                    .special_tokens = {kEndToken}},
                   [&](std::string& text) {
                     do {
                       if (!reader.next(part)) return false;
                     } while (part.validation);
                     text.swap(part.text);
                     return true;
                   });
}

DType choose_dtype(const PrepareConfig& config, int64_t vocab_size) {
  if (config.dtype == "auto") return token_dtype(vocab_size);
  const DType dtype = parse_dtype(config.dtype);
  if (dtype_size(dtype) < dtype_size(token_dtype(vocab_size)))
    throw error(Code::kUsage, "preparing text: a vocabulary of {} does not fit {}; use dtype i32 or auto", vocab_size,
                config.dtype);
  return dtype;
}

/// Parts of documents that one thread encodes at a stretch, one behind the other, so that memory does not depend on how
/// long each is.
struct EncodeTask {
  struct Part {
    size_t text_end, ids_end;
    bool begins, ends, validation;
  };
  std::string text;
  std::vector<Part> parts;
  std::vector<int32_t> ids;

  /// Takes parts until it is full; false where there are no more.
  bool read(DocumentReader& reader, DocumentPart& part) {
    text.clear();
    parts.clear();
    ids.clear();
    while (text.size() + parts.size() * sizeof(Part) < kTaskBytes) {
      if (!reader.next(part)) return false;
      text += part.text;
      parts.push_back({text.size(), 0, part.begins, part.ends, part.validation});
    }
    return true;
  }
  size_t held_bytes() const {
    return text.capacity() + parts.capacity() * sizeof(Part) + ids.capacity() * sizeof(int32_t);
  }
};

/// Encodes the documents into shards.
class Encoder {
 public:
  Encoder(Context& context, const PrepareConfig& config, const Tokenizer& tokenizer)
      : context_(context), config_(config), tokenizer_(tokenizer) {
    if (config.end_token) {
      if (!tokenizer.eos())
        throw error(Code::kUsage, "preparing text: the tokenizer names no end-of-text token; set end_token = false, or "
                                  "eos_token in its tokenizer_config.json");
      end_ = *tokenizer.eos();
    }
    if (config.begin_token) {
      if (!tokenizer.bos())
        throw error(Code::kUsage, "preparing text: the tokenizer names no token to begin with; set begin_token = "
                                  "false, or bos_token in its tokenizer_config.json");
      begin_ = *tokenizer.bos();
    }
  }

  void run(DocumentReader& reader, Progress& progress, ShardSeries& train, ShardSeries& val) {
    std::vector<EncodeTask> tasks(size_t(context_.pool.size()) * kTasksPerThread);
    DocumentPart part;
    const Stopwatch watch;
    for (bool more = true; more;) {
      int64_t used = 0;
      while (more && used < int64_t(tasks.size())) more = tasks[size_t(used++)].read(reader, part);
      context_.pool.parallel_for(used, [&](int64_t i, int) { encode(tasks[size_t(i)]); });
      for (int64_t i = 0; i < used; ++i) write(tasks[size_t(i)], train, val);
      int64_t held = 0;
      for (const EncodeTask& task : tasks) held += int64_t(task.held_bytes());
      held_max_ = std::max(held_max_, held);
      const double rate = double(reader.counts().bytes) / 1e6 / std::max(1e-9, watch.seconds());
      progress.update(reader.counts().bytes >> 20, fmt::format("{:.0f} MB/s", rate));
    }
  }
  int64_t held_max() const { return held_max_; }

 private:
  void encode(EncodeTask& task) const {
    size_t begin = 0;
    for (EncodeTask::Part& part : task.parts) {
      if (part.begins && begin_ >= 0) task.ids.push_back(begin_);
      tokenizer_.encode(std::string_view(task.text).substr(begin, part.text_end - begin), task.ids,
                        {.parse_special = config_.parse_special});
      if (part.ends && end_ >= 0) task.ids.push_back(end_);
      begin = part.text_end;
      part.ids_end = task.ids.size();
    }
  }

  static void write(const EncodeTask& task, ShardSeries& train, ShardSeries& val) {
    size_t begin = 0;
    for (const EncodeTask::Part& part : task.parts) {
      const auto ids = std::span(task.ids).subspan(begin, part.ids_end - begin);
      (part.validation ? val : train).write(part.begins, ids);
      begin = part.ids_end;
    }
  }

  Context& context_;
  const PrepareConfig& config_;
  const Tokenizer& tokenizer_;
  int32_t begin_ = -1, end_ = -1;
  int64_t held_max_ = 0;
};

OrderedJson split_json(const PreparedSplit& split) {
  OrderedJson shards = OrderedJson::array();
  for (const PreparedShard& shard : split.shards)
    shards.push_back({{"file", shard.file}, {"tokens", shard.tokens}, {"documents", shard.documents}});
  return {{"tokens", split.tokens}, {"documents", split.documents}, {"shards", shards}};
}

/// What was made of what; the same bytes for the same inputs and settings.
std::string manifest(const PrepareConfig& config, const PrepareResult& result, const Tokenizer& tokenizer) {
  const OrderedJson json = {{"made_by", kPrepareMaker},
                            {"version", 1},
                            {"inputs", config.inputs},
                            {"files", result.files},
                            {"bytes", result.bytes},
                            {"skipped", {{"bad_lines", result.bad_lines}, {"binary_files", result.binary_files}}},
                            {"vocab_size", result.vocab_size},
                            {"vocab_hash", hex64(tokenizer.vocab_hash())},
                            {"dtype", dtype_name(result.dtype)},
                            {"val_fraction", config.val_fraction},
                            {"seed", config.seed},
                            {"train", split_json(result.train)},
                            {"val", split_json(result.val)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

void warn_about(Log& log, const PrepareConfig& config, const PrepareResult& result) {
  if (result.bad_lines > 0) log.warn("passed over {} lines without the field {}", result.bad_lines, config.text_field);
  if (result.binary_files > 0) log.info("passed over {} binary files", result.binary_files);
  if (config.val_fraction > 0 && result.val.tokens == 0)
    log.warn("no document of {} came to validation; raise val_fraction or give more documents", result.train.documents);
}

}  // namespace

PrepareResult prepare(Context& context, Progress& progress, const PrepareConfig& config) {
  const std::vector<InputFile> files = find_input_files(
      config.inputs, {.include = config.include, .exclude = config.exclude, .format = config.format});
  StagingFolder folder(config.out, config.overwrite);
  PrepareResult result;
  Stopwatch watch;
  const Tokenizer tokenizer = make_tokenizer(context, progress, config, files);
  result.tokenizer_s = watch.lap();
  result.vocab_size = tokenizer.vocab_size();
  result.dtype = choose_dtype(config, result.vocab_size);

  const TokenShardOptions options{
      .dtype = result.dtype, .vocab_size = result.vocab_size, .vocab_hash = tokenizer.vocab_hash()};
  ShardSeries train(folder, "train", options, config.shard_tokens), val(folder, "val", options, config.shard_tokens);
  DocumentReader reader(files, reader_options(config),
                        [&](std::string_view text) { return tokenizer.safe_cut(text); });
  Encoder encoder(context, config, tokenizer);
  int64_t total_bytes = 0;
  for (const InputFile& file : files) total_bytes += int64_t(file.bytes);
  progress.begin("tokenizing", total_bytes >> 20, "MB");
  encoder.run(reader, progress, train, val);
  progress.end();
  result.train = train.finish();
  result.val = val.finish();
  result.encode_s = watch.lap();
  if (result.train.tokens == 0)
    throw error(Code::kBadData, "preparing text: the {} files hold no text to train on", files.size());

  const DocumentReader::Counts& counts = reader.counts();
  result.files = counts.files;
  result.bytes = counts.bytes;
  result.bad_lines = counts.bad_lines;
  result.binary_files = counts.binary_files;
  result.batch_bytes_max = encoder.held_max();
  tokenizer.save(folder.path());
  write_file_atomic(folder.file(kPrepareManifest), manifest(config, result, tokenizer));
  folder.publish();
  warn_about(context.log, config, result);
  return result;
}

}  // namespace espalier
