#include "text/sentencepiece_model.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "text/base64.h"
#include "text/gguf_tokenizer.h"
#include "text/gguf_tokenizer_json.h"
#include "text/protobuf_reader.h"
#include "text/vocabulary.h"

namespace espalier {
namespace {

enum ModelType : uint64_t { kUnigram = 1, kBpe = 2 };

/// What the file says, with the defaults of its schema.
struct Model {
  GgufVocabulary pieces;  // tokens, scores and types are numbered alike in both formats
  uint64_t type = kUnigram;
  bool byte_fallback = false, space_behind = false;
  int64_t unknown = 0, bos = 1, eos = 2, pad = -1;
  std::string charsmap;
  bool dummy_prefix = true, single_spaces = true, escape_spaces = true;
};

void read_piece(ProtobufReader message, Model& model, const std::string& what) {
  std::string_view piece;
  float score = 0;
  uint64_t type = GgufVocabulary::kNormal;
  while (const auto field = message.next()) {
    if (field->number == 1) piece = message.bytes(*field);
    if (field->number == 2) score = message.f32(*field);
    if (field->number == 3) type = message.varint(*field);
  }
  if (type < GgufVocabulary::kNormal || type > GgufVocabulary::kByte)
    throw error(Code::kBadData, "reading {}: the type of piece {} is {}; expected 1 to 6", what,
                model.pieces.tokens.size(), type);
  model.pieces.tokens.emplace_back(piece);
  model.pieces.scores.push_back(score);
  model.pieces.types.push_back(int32_t(type));
}

void read_trainer(ProtobufReader message, Model& model) {
  while (const auto field = message.next()) {
    switch (field->number) {
      case 3:
        model.type = message.varint(*field);
        break;
      case 24:
        model.space_behind = message.varint(*field) != 0;
        break;
      case 35:
        model.byte_fallback = message.varint(*field) != 0;
        break;
      case 40:
        model.unknown = int32_t(message.varint(*field));
        break;
      case 41:
        model.bos = int32_t(message.varint(*field));
        break;
      case 42:
        model.eos = int32_t(message.varint(*field));
        break;
      case 43:
        model.pad = int32_t(message.varint(*field));
        break;
      default:
        break;
    }
  }
}

void read_normalizer(ProtobufReader message, Model& model) {
  while (const auto field = message.next()) {
    if (field->number == 2) model.charsmap = message.bytes(*field);
    if (field->number == 3) model.dummy_prefix = message.varint(*field) != 0;
    if (field->number == 4) model.single_spaces = message.varint(*field) != 0;
    if (field->number == 5) model.escape_spaces = message.varint(*field) != 0;
  }
}

Model read_model(std::string_view bytes, const std::string& what) {
  Model model;
  ProtobufReader message(bytes, what);
  while (const auto field = message.next()) {
    if (field->number == 1) read_piece({message.bytes(*field), what}, model, what);
    if (field->number == 2) read_trainer({message.bytes(*field), what}, model);
    if (field->number == 3) read_normalizer({message.bytes(*field), what}, model);
  }
  if (model.pieces.tokens.empty())
    throw error(Code::kBadData, "reading {}: it holds no pieces; expected a tokenizer.model of SentencePiece", what);
  if (model.type != kUnigram && model.type != kBpe)
    throw error(Code::kUnsupported, "reading {}: a SentencePiece model of type {} is not supported; Unigram (1) and "
                "BPE (2) are", what, model.type);
  if (model.space_behind || !model.escape_spaces)
    throw error(Code::kUnsupported, "reading {}: spaces behind words, and spaces as they are, are not supported", what);
  return model;
}

/// The ids that the file gives, where it has such a piece.
std::optional<int64_t> present(int64_t id, const Model& model) {
  return id >= 0 && id < int64_t(model.pieces.tokens.size()) ? std::optional(id) : std::nullopt;
}

Json replace_step(const char* kind, const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

Json normalizer_of(const Model& model) {
  Json steps = Json::array();
  if (!model.charsmap.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(model.charsmap)},
                     {"longest_match", true}});
  if (model.single_spaces) {
    steps.push_back(replace_step("Regex", "\\A +", ""));
    steps.push_back(replace_step("Regex", " {2,}", " "));
  }
  if (model.dummy_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  steps.push_back(replace_step("String", " ", kSpaceMark));
  // At the end a mark that stood in the text goes as well.
  if (model.single_spaces) steps.push_back(replace_step("Regex", (std::string(kSpaceMark) + "+\\z").c_str(), ""));
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json decoder_of(const Model& model) {
  Json steps = {replace_step("String", kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (model.dummy_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

std::string unigram_json(const Model& model) {
  const GgufVocabulary& v = model.pieces;
  std::string pieces = "[";
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    pieces += id > 0 ? ",[" : "[";
    append_json(pieces, v.tokens[id]);
    pieces += fmt::format(",{}]", v.scores[id]);
  }
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":{},"pre_tokenizer":null,)"
      R"("post_processor":{},"decoder":{},"model":{{"type":"Unigram","unk_id":{},"byte_fallback":{},"vocab":{}]}}}})",
      gguf_added_json(v, v.tokens), normalizer_of(model).dump(), gguf_post_processor_json(v),
      decoder_of(model).dump(), v.unknown ? fmt::format("{}", *v.unknown) : "null", model.byte_fallback, pieces);
}

/// BPE: as the same vocabulary in a GGUF, with the steps that GGUF has no words for.
std::string bpe_json(const Model& model, const std::string& what) {
  if (model.charsmap.empty() && !model.single_spaces) return gguf_llama_json(model.pieces, what);
  Json json = parse_json(gguf_llama_json(model.pieces, what), what);
  json["normalizer"] = normalizer_of(model);
  return json.dump();
}

std::optional<int32_t> narrow(std::optional<int64_t> id) { return id ? std::optional(int32_t(*id)) : std::nullopt; }

}  // namespace

Tokenizer sentencepiece_tokenizer(std::string_view bytes, const std::string& what,
                                  const SentencePieceOptions& options) {
  Model model = read_model(bytes, what);
  GgufVocabulary& v = model.pieces;
  v.model = "llama";
  v.bos = present(model.bos, model);
  v.eos = present(model.eos, model);
  v.pad = present(model.pad, model);
  v.unknown = present(model.unknown, model);
  v.add_bos = options.add_bos;
  v.add_eos = options.add_eos;
  v.add_space_prefix = model.dummy_prefix;
  check_vocabulary(v, what);
  return Tokenizer::from_json(model.type == kBpe ? bpe_json(model, what) : unigram_json(model), what,
                              SpecialIds{.bos = narrow(v.bos), .eos = narrow(v.eos), .pad = narrow(v.pad)});
}

}  // namespace espalier
