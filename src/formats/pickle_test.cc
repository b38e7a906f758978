#include "formats/pickle.h"

#include "formats/hf_folder.h"
#include "formats/safetensors_writer.h"
#include "formats/test_folder.h"

namespace espalier {
namespace {

void put(const std::string& path, const std::string& text = "") {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  put_file(path, text);
}

// The first bytes of what torch.save writes today, and wrote before PyTorch 1.6.
const std::string kZip = std::string("PK\3\4\0\0\x08\x08", 8) + std::string(22, '\0') + "weights/data.pkl" + "FB";
const std::string kBefore = std::string("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", 15);

TEST(Pickle, IsKnownByNameAndByItsFirstBytes) {
  const TestFolder folder;
  for (const char* name : {"a.pt", "b.pth", "c.ckpt", "pytorch_model.bin", "pytorch_model-00001-of-00002.bin",
                           "pytorch_model.bin.index.json"}) {
    put(folder / name);
    EXPECT_TRUE(is_pickle(folder / name)) << name;
  }
  put(folder / "zip.bin", kZip);
  put(folder / "before.bin", kBefore);
  EXPECT_TRUE(is_pickle(folder / "zip.bin"));
  EXPECT_TRUE(is_pickle(folder / "before.bin"));
  put(folder / "tokens.bin", "PK\3\4 sixteen-bit tokens may begin so");
  put(folder / "empty.bin");
  for (const char* name : {"tokens.bin", "empty.bin", "absent.pt", ""}) EXPECT_FALSE(is_pickle(folder / name)) << name;
}

TEST(Pickle, AFolderOfThemIsRefusedWithTheCommandThatConvertsIt) {
  const TestFolder folder;
  put(folder / "m/config.json", "{}");
  expect_error(Code::kNotFound, "neither model.safetensors", [&] { open_weights(folder / "m"); });
  for (const char* name : {"pytorch_model.bin.index.json", "pytorch_model.bin"}) {
    put(folder / "m/" + name);
    expect_error(Code::kUnsupported, "python3 -c 'from transformers import AutoModelForCausalLM as M",
                 [&] { open_weights(folder / "m"); });
  }
  const std::string m = folder / "m";
  const std::string converts = "M.from_pretrained(\"" + m + "\", torch_dtype=\"auto\").save_pretrained(\"" + m +
                               "-safetensors\", safe_serialization=True)";
  expect_error(Code::kUnsupported, converts + "'", [&] { open_weights(folder / "m"); });
  put(folder / "m/tokenizer.json", "{}");
  expect_error(Code::kUnsupported, "; T.from_pretrained(", [&] { open_weights(folder / "m"); });
  SafetensorsWriter(folder / "m/model.safetensors", {}).finish();
  EXPECT_TRUE(open_weights(folder / "m").names().empty());
}

TEST(Pickle, AFileOfThemIsRefusedToo) {
  const TestFolder folder;
  put(folder / "alone/consolidated.00.pth");
  expect_error(Code::kUnsupported, "no config.json", [&] { find_model(folder / "alone/consolidated.00.pth"); });
  put(folder / "it's/config.json", "{}");
  put(folder / "it's/pytorch_model.bin");
  // Quoted for the shell, the path is one word again.
  expect_error(Code::kUnsupported, "it'\\''s-safetensors\", safe",
               [&] { find_model(folder / "it's/pytorch_model.bin"); });
}

// The files of a snapshot are links into the cache; what is written goes elsewhere.
TEST(Pickle, NothingIsWrittenIntoTheHuggingFaceCache) {
  const TestFolder folder;
  put(folder / "models--org--Name-1b/snapshots/abc/config.json", "{}");
  put(folder / "models--org--Name-1b/snapshots/abc/pytorch_model.bin");
  const std::string found = find_model("org/Name-1b", folder.path());
  expect_error(Code::kUnsupported, ".save_pretrained(\"Name-1b-safetensors\", safe", [&] { open_weights(found); });
}

}  // namespace
}  // namespace espalier
