// `bench tokenizer`: text to ids with a model's own vocabulary, on one thread, a cell for each text file. Documents are
// read and checked before the clock starts, and each measurement begins with a tokenizer that has seen nothing, as the
// rival's does (bench/peers/tokenizer.py): what its caches gain, they gain within the text.
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "bench/bench.h"
#include "bench/median.h"
#include "formats/hf_folder.h"
#include "models/gguf_tokenizer.h"
#include "train/document_reader.h"

namespace espalier {
namespace {

struct Documents {
  std::vector<std::string> texts;
  size_t bytes = 0;
};

/// The documents of a .txt (one) or .jsonl (one a line) file, whole.
Documents read_documents(const std::string& path) {
  Documents documents;
  DocumentReader reader(find_input_files({path}, {}), {}, [](std::string_view) { return size_t{0}; });
  for (DocumentPart part; reader.next(part);) {
    documents.bytes += part.text.size();
    if (part.begins) documents.texts.emplace_back();
    documents.texts.back() += part.text;
  }
  return documents;
}

/// One pass over the documents with a fresh tokenizer: seconds, and how many ids.
double encode_all(const std::string& model, const Documents& documents, size_t& count) {
  const Tokenizer tokenizer = load_tokenizer(model);
  std::vector<std::vector<int32_t>> ids(documents.texts.size());
  const Stopwatch watch;
  for (size_t i = 0; i < ids.size(); ++i) tokenizer.encode(documents.texts[i], ids[i]);
  const double seconds = watch.seconds();
  count = 0;
  for (const auto& list : ids) count += list.size();
  return seconds;
}

BenchResult run(Context&, Progress& progress, const BenchOptions& options) {
  if (options.texts.empty())
    throw error(Code::kUsage, "bench tokenizer: say what to encode: --texts prose.txt --texts code.jsonl");
  const std::string model = is_file(options.model) ? options.model : find_model(options.model);
  BenchResult result{.name = "tokenizer", .unit = "MB/s"};
  std::vector<double> rates;
  for (const std::string& path : options.texts) {
    const std::string name = std::filesystem::path(path).stem().string();
    const Documents documents = read_documents(path);
    std::vector<double> seconds;
    size_t count = 0;
    progress.begin("encoding " + name, options.repeats, "passes");
    for (int64_t i = 0; i < options.repeats; ++i) {
      seconds.push_back(encode_all(model, documents, count));
      progress.update(i + 1, "");
    }
    progress.end();
    rates.push_back(double(documents.bytes) / 1e6 / median(seconds));
    result.cells.push_back({name, rates.back()});
    result.notes.push_back(fmt::format("{}: {:.2f} MB in {} documents to {} ids", name, double(documents.bytes) / 1e6,
                                       documents.texts.size(), count));
  }
  result.value = median(rates);
  result.notes.push_back("one thread, a fresh tokenizer for each measurement; vocabulary of " + options.model);
  return result;
}

}  // namespace

extern const Bench kTokenizerBench;
const Bench kTokenizerBench = {"tokenizer", "text to ids with a model's vocabulary, on one thread (--texts, --model)",
                               run};

}  // namespace espalier
