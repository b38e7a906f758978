// Finding a model: a Hugging Face folder, a .gguf, a run folder of ours, or an id in a local cache. Nothing is ever
// fetched. What the folder's config.json means is for models/.
#pragma once
#include <string>

#include "formats/safetensors.h"

namespace espalier {

/// Where the Hugging Face libraries keep downloads: HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, or
/// ~/.cache/huggingface/hub.
std::string hub_cache_folder();

/// The folder that holds `model`'s config.json or tokenizer.json, where `model` is such a folder, a run folder (which
/// has model/), or an id like "gpt2" or "org/name" found in `hub_cache`, at the revision "main" or else the newest.
/// Throws Error kNotFound that lists where it looked.
std::string find_model_folder(const std::string& model, const std::string& hub_cache = hub_cache_folder());

/// Where tools/get_model.sh keeps models: ESP_MODELS, or ~/.cache/espalier/models.
std::string model_cache_folder();

/// The model that a user names: a .gguf file (any part of a split one), a model of that name among those that
/// tools/get_model.sh fetched, or as find_model_folder.
std::string find_model(const std::string& model);

/// The folder's safetensors. PyTorch pickles are programs rather than data and are not read: Error kUnsupported with
/// the command that converts them. Otherwise as SafetensorsFolder::open.
SafetensorsFolder open_weights(const std::string& folder);

}  // namespace espalier
