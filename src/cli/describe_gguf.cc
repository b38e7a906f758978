// GGUF files for `espalier inspect`: what they are made of, whether we can run them or not.
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json_value.h"
#include "cli/describe.h"
#include "formats/gguf.h"
#include "formats/gguf_blocks.h"
#include "models/gguf_tokenizer.h"
#include "models/load.h"

namespace espalier {
namespace {

OrderedJson list(const auto& values) {
  OrderedJson array = OrderedJson::array();
  for (const auto& value : values) array.push_back(value);
  return array;
}

/// A value as JSON has it; long arrays as their kind and length.
OrderedJson value_of(const GgufMetadata& m, std::string_view key) {
  constexpr uint64_t kMostShown = 16;
  const GgufValue& value = *m.find(key);
  switch (value.type) {
    case GgufValueType::kString:
      return value.bytes;
    case GgufValueType::kBool:
      return *m.boolean(key);
    case GgufValueType::kF32:
    case GgufValueType::kF64:
    case GgufValueType::kU64:  // beyond what int64_t holds
      return *m.number(key);
    case GgufValueType::kArray:
      if (value.count > kMostShown)
        return fmt::format("{} of type {}", value.count, gguf_value_type_name(value.element));
      if (value.element == GgufValueType::kString) return list(*m.texts(key));
      return list(*m.numbers(key));
    default:
      return *m.integer(key);
  }
}

OrderedJson metadata_of(const GgufFile& file) {
  OrderedJson object = OrderedJson::object();
  for (const std::string_view key : file.metadata().keys())
    if (key != "tokenizer.chat_template") object[std::string(key)] = value_of(file.metadata(), key);
  return object;
}

OrderedJson tokenizer_of(const GgufFile& file) {
  const GgufMetadata& m = file.metadata();
  OrderedJson object = {{"kind", m.text("tokenizer.ggml.model").value_or("none")},
                        {"pre", m.text("tokenizer.ggml.pre").value_or("none")}};
  try {
    if (m.find("tokenizer.ggml.tokens")) object.update(describe_vocabulary(load_gguf_tokenizer(file)));
  } catch (const Error& e) {  // inspect's edge: what we cannot use, we can still look at
    object["cannot_use"] = e.what();
  }
  return object;
}

}  // namespace

OrderedJson describe_gguf(Terminal& terminal, const std::string& path, const DescribeOptions& options) {
  const GgufFile file = GgufFile::open(path);
  OrderedJson object = {{"version", file.version()}, {"parts", file.parts()}};
  try {
    object.update(describe_spec(load_spec(path)));
  } catch (const Error& e) {  // inspect's edge: what we cannot run, we can still look at
    object["cannot_run"] = e.what();
  }
  object["tokenizer"] = tokenizer_of(file);
  if (const auto text = gguf_chat_template(file)) object["chat_template"] = *text;
  std::map<std::string, int64_t> types;
  OrderedJson tensors = OrderedJson::array();
  int64_t elements = 0;
  uint64_t bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    const char* type = ggml_type_name(tensor.type);
    types[type] += tensor.shape.size();
    elements += tensor.shape.size();
    bytes += tensor.bytes;
    tensors.push_back({{"name", tensor.name}, {"type", type}, {"shape", describe_shape(tensor.shape)},
                       {"bytes", tensor.bytes}});
  }
  object.update({{"elements", elements}, {"types", types}, {"weight_bytes", bytes}});
  object["metadata"] = metadata_of(file);
  object["tensors"] = tensors;
  if (options.verify && !object.contains("cannot_run")) {  // names, shapes, and that every number is finite
    load_model(terminal.context(), one_process_mesh(), path, {});
    object["verified"] = true;
  }
  return object;
}

}  // namespace espalier
