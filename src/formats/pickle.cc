#include "formats/pickle.h"

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

bool begins_like_a_pickle(const std::string& path) {
  constexpr std::string_view kZip("PK\x03\x04", 4), kBefore("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19", 14);
  FileReader reader(path);
  char bytes[256] = {};
  const std::string_view head(bytes, reader.read(bytes, sizeof bytes));
  return head.starts_with(kBefore) || (head.starts_with(kZip) && head.find("/data.pkl") != head.npos);
}

bool is_named_like_a_pickle(const std::string& name) {
  for (const char* ending : {".pt", ".pth", ".ckpt"})
    if (name.ends_with(ending)) return true;
  return name.starts_with("pytorch_model") && (name.ends_with(".bin") || name.ends_with(".bin.index.json"));
}

/// As a string of Python's and of a shell's single quotes.
std::string quoted(const std::string& text) {
  std::string shell;
  for (const char c : Json(text).dump(-1, ' ', false, Json::error_handler_t::replace))
    shell += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return shell;
}

/// The folder beside this one that the command writes; for a snapshot of the Hugging Face cache, whose files are links
/// to what must stay as it is, one of the model's name here.
std::string target_of(const fs::path& folder) {
  const std::string repository = folder.parent_path().parent_path().filename();
  if (folder.parent_path().filename() != "snapshots" || !repository.starts_with("models--"))
    return folder.string() + "-safetensors";
  return repository.substr(repository.rfind("--") + 2) + "-safetensors";
}

}  // namespace

bool is_pickle(const std::string& path) {
  return is_file(path) && (is_named_like_a_pickle(fs::path(path).filename()) || begins_like_a_pickle(path));
}

std::optional<std::string> pickle_in(const std::string& folder) {
  for (const std::string& path : list_folder(folder))
    if (is_file(path) && is_named_like_a_pickle(fs::path(path).filename())) return path;
  return std::nullopt;
}

Error pickle_refusal(const std::string& path) {
  const std::string why = fmt::format("reading the weights {}: they are a PyTorch pickle, which can run any program "
                                      "when it is read, so Espalier does not", path);
  fs::path folder = fs::absolute(path).lexically_normal().parent_path();
  if (!is_file(folder / "config.json"))
    return error(Code::kUnsupported, "{}. Beside it is no config.json that says which model it is; get the model as "
                 "safetensors, or its whole folder and convert that", why);
  const std::string from = quoted(folder), target = target_of(folder), to = quoted(target);
  std::string code = fmt::format("from transformers import AutoModelForCausalLM as M, AutoTokenizer as T; "
                                 "M.from_pretrained({}, torch_dtype=\"auto\").save_pretrained({}, "
                                 "safe_serialization=True)", from, to);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json"}) {
    if (!is_file(folder / name)) continue;
    code += fmt::format("; T.from_pretrained({}).save_pretrained({})", from, to);
    break;
  }
  return error(Code::kUnsupported, "{}. If you trust it, convert it and use {}: python3 -c '{}'", why, target, code);
}

}  // namespace espalier
