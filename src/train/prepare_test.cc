#include "train/prepare.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/json_value.h"
#include "base/rng.h"
#include "formats/test_folder.h"
#include "formats/token_dataset.h"
#include "text/tokenizer.h"
#include "train/document_reader.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

const std::string kTokenizer = std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/gpt2.json";

PrepareResult run(const PrepareConfig& config, int threads = 2) {
  ThreadPool pool(threads);
  Context context{pool, silent_log()};
  return prepare(context, silent_progress(), config);
}

/// Words and lines, the same for the same seed.
std::string some_text(uint64_t seed, size_t bytes) {
  const Rng rng(seed, Purpose::kTest);
  std::string text;
  for (uint64_t i = 0; text.size() < bytes; ++i)
    text += fmt::format("{}{:x}", " \n\t "[rng.below(i, 4)], rng.below(i, uint64_t{1} << rng.below(i + 1, 40)));
  return text;
}

/// The tokens of each document of the shards that match.
std::vector<Ids> documents_of(const std::string& glob) {
  const TokenDataset dataset = TokenDataset::open(glob);
  dataset.verify();
  std::vector<int64_t> starts;
  dataset.document_starts_in(0, dataset.token_count(), starts);
  starts.push_back(dataset.token_count());
  std::vector<Ids> documents;
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    documents.emplace_back(size_t(starts[i + 1] - starts[i]));
    dataset.read(starts[i], int64_t(documents.back().size()), documents.back().data());
  }
  return documents;
}

Ids with_end(const Tokenizer& tokenizer, const std::string& text) {
  Ids ids = tokenizer.encode(text, {.parse_special = false});
  ids.push_back(*tokenizer.eos());
  return ids;
}

/// All files of a folder with their bytes.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = read_file(entry.path().string());
  return files;
}

TEST(Prepare, FoldersBecomeADocumentAFile) {
  const TestFolder folder;
  fs::create_directories(folder / "in/b/.git");
  put_file(folder / "in/z.py", "import z\n");
  put_file(folder / "in/b/a.py", "a <|endoftext|> b");
  put_file(folder / "in/b/.git/c.py", "hidden");
  put_file(folder / "in/b/empty.py", "");
  put_file(folder / "in/b/data.bin", std::string("\0\1", 2));
  put_file(folder / "in/c.txt", "text");
  const PrepareConfig config{.inputs = {folder / "in"}, .out = folder / "out", .tokenizer = kTokenizer,
                             .exclude = {".txt"}, .val_fraction = 0};
  const PrepareResult result = run(config);
  const Tokenizer tokenizer = Tokenizer::load(folder / "out");
  EXPECT_EQ(documents_of(folder / "out/train-*.tokens"),
            (std::vector<Ids>{with_end(tokenizer, "a <|endoftext|> b"), with_end(tokenizer, "import z\n")}));
  EXPECT_EQ(result.train.documents, 2);
  EXPECT_EQ(result.binary_files, 1);
  EXPECT_EQ(result.files, 3);  // the empty one is read, and gives no document
  EXPECT_EQ(result.val.tokens, 0);
  const Json manifest = read_json_file(folder / "out/prepare.json");
  EXPECT_EQ(manifest["train"]["tokens"], result.train.tokens);
  EXPECT_EQ(manifest["train"]["shards"][0]["file"], "train-00000.tokens");
  EXPECT_EQ(TokenDataset::open(folder / "out").vocab_hash(), tokenizer.vocab_hash());
  EXPECT_FALSE(fs::exists(folder / "out.tmp"));
}

TEST(Prepare, SeparatorLinesEndDocuments) {
  const TestFolder folder;
  put_file(folder / "a.txt", "---\none\n---x\n ---\n---\r\n---\ntwo\n---");
  PrepareConfig config{.inputs = {folder / "a.txt"}, .out = folder / "out", .tokenizer = kTokenizer,
                       .separator = "---", .val_fraction = 0};
  run(config);
  const Tokenizer tokenizer = Tokenizer::load(kTokenizer);
  EXPECT_EQ(documents_of(folder / "out/train*"),
            (std::vector<Ids>{with_end(tokenizer, "one\n---x\n ---\n"), with_end(tokenizer, "two\n")}));
}

TEST(Prepare, JsonLinesAndTheirErrors) {
  const TestFolder folder;
  put_file(folder / "a.jsonl", "{\"id\": 1, \"text\": \"caf\\u00e9\\n\"}\n\n{\"text\": \"\"}\r\n{\"text\":\"last\"}");
  PrepareConfig config{.inputs = {folder / "*.jsonl"}, .out = folder / "out", .tokenizer = kTokenizer,
                       .val_fraction = 0, .begin_token = true, .overwrite = true};
  run(config);
  const Tokenizer tokenizer = Tokenizer::load(kTokenizer);
  const std::vector<Ids> documents = documents_of(folder / "out/train*");
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].front(), tokenizer.bos());
  EXPECT_EQ(Ids(documents[0].begin() + 1, documents[0].end()), with_end(tokenizer, "café\n"));

  const auto before = contents(folder / "out");
  for (const char* bad : {"{\"text\": 3}", "{\"body\": \"x\"}", "[1]", "{\"text\": \"x\"", "{\"text\": \"\xff\"}",
                          "null", "{\"text\": \"x\"} y"}) {
    put_file(folder / "a.jsonl", std::string("{\"text\": \"fine\"}\n\n") + bad + "\n{\"text\": \"also\"}\n");
    config.skip_bad = false;
    expect_error(Code::kBadData, "a.jsonl:3", [&] { run(config); });
    EXPECT_EQ(contents(folder / "out"), before) << "a failed run may change nothing";
    EXPECT_FALSE(fs::exists(folder / "out.tmp"));
    config.skip_bad = true;
    config.out = folder / "skipped";
    const PrepareResult result = run(config);
    EXPECT_EQ(result.bad_lines, 1) << bad;
    EXPECT_EQ(result.train.documents, 2) << bad;
    config.out = folder / "out";
  }
  config.text_field = "body";
  put_file(folder / "a.jsonl", "{\"body\": \"x\"}\n");
  EXPECT_EQ(run(config).train.documents, 1);
}

TEST(Prepare, AnyNumberOfThreadsGivesTheSameBytes) {
  const TestFolder folder;
  fs::create_directories(folder / "in");
  for (uint64_t i = 0; i < 40; ++i) put_file(folder / fmt::format("in/{}.txt", i), some_text(i, 200 + i * i * 100));
  PrepareConfig config{.inputs = {folder / "in"}, .vocab_size = 400, .val_fraction = 0.2, .shard_tokens = 50'000};
  std::map<std::string, std::string> first;
  for (const int threads : {1, 2, 5}) {
    config.out = folder / std::to_string(threads);
    const PrepareResult result = run(config, threads);
    EXPECT_GT(result.train.shards.size(), 2u);
    EXPECT_GT(result.val.documents, 0);
    EXPECT_EQ(result.val.documents + result.train.documents, 40);
    if (first.empty()) first = contents(config.out);
    EXPECT_EQ(contents(config.out), first) << threads;
  }
  // Training and validation are together what was put in: nothing is lost at the borders of shards.
  const Tokenizer tokenizer = Tokenizer::load(folder / "1");
  size_t tokens = 0;
  for (uint64_t i = 0; i < 40; ++i) tokens += with_end(tokenizer, some_text(i, 200 + i * i * 100)).size();
  EXPECT_EQ(size_t(TokenDataset::open(folder / "1").token_count()), tokens);
}

TEST(Prepare, AHugeFileStreamsWithTheSameTokens) {
  const TestFolder folder;
  std::string text = some_text(1, 1'000'000);
  for (int i = 0; i < 3; ++i) text += text;
  put_file(folder / "huge.txt", text + text);
  put_file(folder / "half.txt", text);
  PrepareConfig config{.inputs = {folder / "half.txt"}, .out = folder / "half", .tokenizer = kTokenizer,
                       .val_fraction = 0};
  const PrepareResult half = run(config, 1);
  EXPECT_EQ(half.train.documents, 1);
  EXPECT_EQ(documents_of(folder / "half/train*")[0], with_end(Tokenizer::load(kTokenizer), text));
  // A file twice as long needs no more memory.
  config.inputs = {folder / "huge.txt"};
  config.out = folder / "huge";
  const PrepareResult huge = run(config, 1);
  EXPECT_LT(huge.batch_bytes_max, half.batch_bytes_max * 11 / 10);
  // At most 16 tasks of 128 KiB and one part, each with the ids, four bytes for at least one of text; vectors double.
  EXPECT_LT(huge.batch_bytes_max, int64_t{16} * (384 << 10) * (1 + 4) * 2);
}

TEST(Prepare, OneTextIsValidatedOnItsEnd) {
  const TestFolder folder;
  const std::string text = some_text(2, 900'000) + "\n";
  put_file(folder / "a.txt", text);
  PrepareConfig config{.inputs = {folder / "a.txt"}, .out = folder / "out", .tokenizer = kTokenizer,
                       .val_fraction = 0.1, .end_token = false};
  const PrepareResult result = run(config);
  EXPECT_EQ(result.train.documents, 1);
  EXPECT_EQ(result.val.documents, 1);
  const Tokenizer tokenizer = Tokenizer::load(kTokenizer);
  const std::string train = tokenizer.decode(documents_of(folder / "out/train*")[0]);
  const std::string val = tokenizer.decode(documents_of(folder / "out/val*")[0]);
  EXPECT_EQ(train + val, text);
  EXPECT_EQ(train.back(), '\n');
  EXPECT_NEAR(double(val.size()), 0.1 * double(text.size()), 200);  // a line
}

TEST(Prepare, SplitsDependOnNamesNotOnOtherFiles) {
  const TestFolder folder;
  fs::create_directories(folder / "in");
  for (uint64_t i = 0; i < 200; ++i) put_file(folder / fmt::format("in/{}.txt", i), fmt::format("file {}", i));
  PrepareConfig config{.inputs = {folder / "in"}, .out = folder / "all", .tokenizer = kTokenizer,
                       .val_fraction = 0.25};
  const PrepareResult all = run(config);
  EXPECT_NEAR(double(all.val.documents), 50, 25);  // four standard deviations of 200 draws
  fs::remove(folder / "in/7.txt");
  config.out = folder / "fewer";
  run(config);
  const std::vector<Ids> before = documents_of(folder / "all/val*");
  for (const Ids& document : documents_of(folder / "fewer/val*"))
    EXPECT_NE(std::find(before.begin(), before.end(), document), before.end());
  config.seed = 2;
  config.out = folder / "other";
  run(config);
  EXPECT_NE(documents_of(folder / "other/val*"), documents_of(folder / "fewer/val*"));
}

TEST(Prepare, RefusesWhatItCannotDo) {
  const TestFolder folder;
  put_file(folder / "a.txt", "text");
  const PrepareConfig good{.inputs = {folder / "a.txt"}, .out = folder / "out", .tokenizer = kTokenizer,
                           .val_fraction = 0};
  const auto with = [&](auto&& change) {
    PrepareConfig config = good;
    change(config);
    return config;
  };
  const auto refuses = [&](Code code, const char* part, auto&& change) {
    expect_error(code, part, [&] { run(with(change)); });
    EXPECT_FALSE(fs::exists(folder / "out"));
    EXPECT_FALSE(fs::exists(folder / "out.tmp"));
  };
  refuses(Code::kUsage, "no inputs", [](auto& c) { c.inputs.clear(); });
  refuses(Code::kNotFound, "absent", [](auto& c) { c.inputs = {"absent.txt"}; });
  refuses(Code::kUsage, "no output", [](auto& c) { c.out.clear(); });
  refuses(Code::kNotFound, "absent.json", [](auto& c) { c.tokenizer = "absent.json"; });
  refuses(Code::kUsage, "gpt9", [](auto& c) { c.tokenizer.clear(), c.pattern = "gpt9"; });
  put_file(folder / "empty.txt", "");
  refuses(Code::kBadData, "no text", [&](auto& c) { c.inputs = {folder / "empty.txt"}; });

  // A vocabulary of more than 65,536 does not fit u16.
  Json json = read_json_file(kTokenizer);
  json["model"]["vocab"]["large"] = 65536;
  put_file(folder / "large.json", json.dump());
  const auto large = [&](PrepareConfig& c) { c.tokenizer = folder / "large.json", c.dtype = "u16"; };
  refuses(Code::kUsage, "65537", large);
  json["added_tokens"] = Json::array();
  put_file(folder / "no_end.json", json.dump());
  refuses(Code::kUsage, "end_token", [&](auto& c) { c.tokenizer = folder / "no_end.json"; });

  EXPECT_EQ(run(with([&](auto& c) { c.tokenizer = folder / "large.json"; })).dtype, DType::kI32);
  expect_error(Code::kUsage, "exists", [&] { run(good); });
  EXPECT_EQ(run(with([](auto& c) { c.overwrite = true; })).dtype, DType::kU16);
  fs::create_directories(folder / "mine");
  put_file(folder / "mine/photo.jpg", "precious");
  expect_error(Code::kUsage, "was not made by", [&] {
    run(with([&](auto& c) { c.out = folder / "mine", c.overwrite = true; }));
  });
  EXPECT_EQ(read_file(folder / "mine/photo.jpg"), "precious");
}

TEST(Prepare, AShardThatIsGoneIsMissed) {
  const TestFolder folder;
  fs::create_directories(folder / "in");
  for (uint64_t i = 0; i < 4; ++i) put_file(folder / fmt::format("in/{}.txt", i), some_text(i, 5'000));
  const PrepareResult made = run({.inputs = {folder / "in"}, .out = folder / "out", .tokenizer = kTokenizer,
                                  .val_fraction = 0, .shard_tokens = 1000});
  ASSERT_GE(made.train.shards.size(), 3u);
  const std::string out = folder / "out";
  EXPECT_EQ(TokenDataset::open(out).token_count(), made.train.tokens);
  fs::remove(out + "/train-00001.tokens");
  for (const std::string& source : {out, out + "/", out + "/*", out + "/train-*.tokens"})
    expect_error(Code::kNotFound, "train-00001.tokens is missing", [&] { TokenDataset::open(source); });
  EXPECT_NO_THROW(TokenDataset::open(out + "/train-00000.tokens")) << "one alone was meant";
  EXPECT_NO_THROW(TokenDataset::open(out + "/train-0000[02].tokens")) << "so were two";
  fs::remove(out + "/prepare.json");
  EXPECT_NO_THROW(TokenDataset::open(out)) << "nothing tells what there should be";
}

TEST(DocumentReader, PartsOfAnySizeMakeTheSameDocuments) {
  const TestFolder folder;
  const std::string text = some_text(3, 20'000) + "\n==\n" + some_text(4, 100) + "\n==\n==\nx";
  put_file(folder / "a.txt", text);
  put_file(folder / "b.jsonl", Json{{"text", text}}.dump() + "\n" + Json{{"text", "y"}}.dump());
  std::vector<std::string> expected;
  for (const size_t part_bytes : {size_t{1} << 18, size_t{5000}, size_t{64}, size_t{1}}) {
    DocumentReader reader(find_input_files({folder / "a.txt", folder / "b.jsonl"}, {}),
                          {.separator = "==", .part_bytes = part_bytes}, [](std::string_view whole) {
                            const size_t space = whole.rfind(' ');
                            return space == whole.npos ? size_t{0} : space;
                          });
    std::vector<std::string> documents;
    DocumentPart part;
    bool inside = false;
    while (reader.next(part)) {
      EXPECT_EQ(part.begins, !inside);
      if (part.begins) documents.emplace_back();
      documents.back() += part.text;
      inside = !part.ends;
    }
    EXPECT_FALSE(inside);
    ASSERT_EQ(documents.size(), 5u);
    EXPECT_EQ(reader.counts().documents, 5);
    EXPECT_EQ(documents[3], text);
    EXPECT_EQ(documents[2], "x");
    if (expected.empty()) expected = documents;
    EXPECT_EQ(documents, expected) << part_bytes;
  }
}

}  // namespace
}  // namespace espalier
