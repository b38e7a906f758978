// The fields that all requests for text share; openai_request.cc adds those of each endpoint.
#pragma once
#include <string>
#include <vector>

#include "serve/openai_request.h"
#include "serve/request_fields.h"

namespace espalier {

/// Log-probabilities are left to the caller: chat and completions write them differently.
GenerationRequest read_generation(const RequestFields& fields);

/// A string, a list of strings, a list of token ids, or a list of such lists.
std::vector<Prompt> read_prompts(const RequestFields& fields, const char* name);

/// A list of token ids.
std::vector<int32_t> read_ids(const OrderedJson& list, const std::string& path);

}  // namespace espalier
