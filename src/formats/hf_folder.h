// Finding a model: a Hugging Face folder, a .gguf, a run folder of ours, or an id in a local cache. Nothing is ever
// fetched. What the folder's config.json means is for models/.
#pragma once
#include <string>

#include "formats/safetensors.h"

namespace espalier {

/// Where the Hugging Face libraries keep downloads: HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, or
/// ~/.cache/huggingface/hub.
std::string hub_cache_folder();

/// Where tools/get_model.sh keeps models: ESP_MODELS, or ~/.cache/espalier/models.
std::string model_cache_folder();

/// The model that a user names: a Hugging Face folder, or a .gguf. Looked for, in this order:
/// - a file: a .gguf, any part of a split one; also without ".gguf" or "-00001-of-0000N.gguf";
/// - a folder with config.json or tokenizer.json, a run folder (which has model/), or a folder with one .gguf;
/// - NAME.gguf in model_cache_folder();
/// - an id like "gpt2" or "org/name" in `hub_cache`, at the revision "main" or else the newest.
/// Throws Error kNotFound that lists where it looked and how the model is fetched, kUsage where a folder holds several
/// .gguf models, and pickle_refusal() for a pickle.
std::string find_model(const std::string& model, const std::string& hub_cache = hub_cache_folder());

/// The same, where only a folder will do; kUnsupported for a .gguf.
std::string find_model_folder(const std::string& model, const std::string& hub_cache = hub_cache_folder());

/// The folder's safetensors; pickle_refusal() where it has pickles alone. Otherwise as SafetensorsFolder::open.
SafetensorsFolder open_weights(const std::string& folder);

}  // namespace espalier
