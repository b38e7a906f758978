// Test support: an adapter for the model of tiny_model.h that changes what it says.
#pragma once
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/safetensors_writer.h"

namespace espalier {

inline void write_tiny_adapter(const std::string& folder) {
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/adapter_config.json") << R"({"peft_type": "LORA", "lora_alpha": 4})";
  const std::string module = "base_model.model.model.layers.1.mlp.down_proj.lora_";
  SafetensorsWriter writer(folder + "/adapter_model.safetensors", {{module + "A.weight", DType::kF32, {2, 64}},
                                                                   {module + "B.weight", DType::kF32, {32, 2}}});
  std::vector<float> a(128), b(64);
  for (size_t i = 0; i < a.size(); ++i) a[i] = std::sin(float(i) * 1.3f);
  for (size_t i = 0; i < b.size(); ++i) b[i] = std::cos(float(i) * 2.1f) * 2;
  writer.write(module + "A.weight", a.data(), a.size() * sizeof(float));
  writer.write(module + "B.weight", b.data(), b.size() * sizeof(float));
  writer.finish();
}

}  // namespace espalier
