// Which registers an instruction writes, from its SASS text alone.
//
// Plain C++17 for the host. `mcage/tracing/importing/sass.py` says the same in Python; the tests
// compare both.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

namespace mcage {

struct Sass {
    std::string guard;                  // "P0", "!P3", "UP1"; empty without a guard
    std::string name;                   // "IMAD"
    std::vector<std::string> suffixes;  // "WIDE", "U32"
    std::vector<std::string> operands;  // as written, trimmed
};

struct Written {
    std::vector<int> registers;
    bool known = true;  // false: it may write registers, and the table does not say which
};

inline bool starts_with(const std::string &text, const char *start) { return text.rfind(start, 0) == 0; }

inline std::string trimmed(const std::string &text) {
    size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
    return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

// Splits at commas that stand outside of brackets.
inline std::vector<std::string> operands_of(const std::string &text) {
    std::vector<std::string> operands;
    std::string operand;
    int depth = 0;
    for (char c : text) {
        depth += (c == '[' || c == '{') - (c == ']' || c == '}');
        if (c == ',' && depth <= 0) {
            operands.push_back(trimmed(operand));
            operand.clear();
        } else {
            operand += c;
        }
    }
    if (!trimmed(operand).empty()) operands.push_back(trimmed(operand));
    return operands;
}

inline Sass parse_sass(const std::string &text) {
    Sass sass;
    std::string rest = trimmed(text.substr(0, text.find(';')));
    if (starts_with(rest, "@")) {
        size_t end = std::min(rest.find(' '), rest.size());
        sass.guard = rest.substr(1, end - 1);
        rest = trimmed(rest.substr(end));
    }
    size_t end = std::min(rest.find(' '), rest.size());
    std::string opcode = rest.substr(0, end) + ".";
    for (size_t from = 0, dot; (dot = opcode.find('.', from)) != std::string::npos; from = dot + 1) {
        std::string word = opcode.substr(from, dot - from);
        if (from == 0) {
            sass.name = word;
        } else {
            sass.suffixes.push_back(word);
        }
    }
    sass.operands = operands_of(rest.substr(end));
    return sass;
}

// "P0", "!PT", "UP3": no register of the file.
inline bool is_predicate(const std::string &operand) {
    size_t at = operand[0] == '!' ? 1 : 0;
    if (operand[at] == 'U') at++;
    if (operand[at] != 'P') return false;
    std::string rest = operand.substr(at + 1);
    return rest == "T" || rest == "R" || (rest.size() == 1 && isdigit(static_cast<unsigned char>(rest[0])));
}

// Number of the register in an operand such as "R12", "R12.reuse", "R12.64"; -1 for anything else.
inline int register_of(const std::string &operand) {
    if (operand.size() < 2 || operand[0] != 'R' || !isdigit(static_cast<unsigned char>(operand[1]))) return -1;
    size_t end = operand.find_first_not_of("0123456789", 1);
    if (end != std::string::npos && operand[end] != '.') return -1;
    if (std::min(end, operand.size()) > 4) return -1;
    return std::stoi(operand.substr(1, end - 1));
}

inline bool has(const Sass &sass, const char *suffix) {
    return std::find(sass.suffixes.begin(), sass.suffixes.end(), suffix) != sass.suffixes.end();
}

// Whether a list of words with spaces between them has this one.
inline bool among(const std::string &word, const char *words) {
    return (" " + std::string(words) + " ").find(" " + word + " ") != std::string::npos;
}

inline bool has_any(const Sass &sass, const char *suffixes) {
    return std::any_of(sass.suffixes.begin(), sass.suffixes.end(),
                       [&](const std::string &suffix) { return among(suffix, suffixes); });
}

// Instructions whose first register is a source: they write predicates, barriers or nothing.
inline bool begins_with_a_source(const std::string &name) {
    return among(name, "BAR BRX BRXU CALL CSETP CSMTEST DSETP FCHK FSETP HSETP2 ISETP JMX JMXU NANOSLEEP PLOP3 "
                       "PSETP R2B R2P RET SETCTAID SETLMEMBASE VSETP WARPSYNC");
}

inline bool has_two_destinations(const Sass &sass) {
    return among(sass.name, "FOOTPRINT TEX TLD TLD4 TMML TXD TXQ") || has(sass, "ENL2");
}

// Bits that an access to memory moves.
inline int bits_of(const Sass &sass) {
    std::string sizes;
    for (const std::string &suffix : sass.suffixes) {
        std::string kind = suffix.substr(0, suffix.find('x'));
        if (kind.size() + 2 == suffix.size() && isdigit(static_cast<unsigned char>(suffix.back())) &&
            among(kind, "F16 BF16 F32")) {
            return (kind == "F32" ? 32 : 16) * (suffix.back() - '0');
        }
        if (among(suffix, "U8 S8 U16 S16")) return std::stoi(suffix.substr(1));
        sizes += suffix.substr(std::min(suffix.find_first_not_of("SUF"), suffix.size())) + " ";
    }
    for (int size : {256, 128, 64}) {
        if (among(std::to_string(size), sizes.c_str())) return size;
    }
    return 32;
}

// How many registers the result of a tensor instruction has, by its type or by its shape.
inline int width_of_tensor(const Sass &sass) {
    const std::string &name = sass.name;
    for (const std::string &suffix : sass.suffixes) {
        if (name == "HMMA" && has(sass, "884")) {
            if (starts_with(suffix, "STEP")) return 2;
        } else if (among(name, "HMMA QMMA OMMA")) {
            if (suffix == "F32") return 4;
            if (suffix == "F16" && name != "OMMA") return 2;
        } else if (name == "IMMA") {
            if (among(suffix, "8816 8832")) return 2;
            if (among(suffix, "16816 16832 16864")) return 4;
        } else if (name == "BMMA") {
            if (suffix == "88128") return 2;
            if (among(suffix, "168128 168256")) return 4;
        } else if (name == "DMMA") {
            if (among(suffix, "884 8x8x4")) return 4;
            if (among(suffix, "16x8x4 16x8x8 16x8x16")) return 8;
        }
    }
    return 0;
}

// Registers that a load from tensor memory writes; 0 if one of its suffixes is not known.
inline int width_from_tensor_memory(const Sass &sass) {
    int width = 1;
    for (const std::string &suffix : sass.suffixes) {
        bool times = suffix.size() > 1 && suffix.size() < 5 && suffix[0] == 'x' &&
                     suffix.find_first_not_of("0123456789", 1) == std::string::npos;
        if (times) {
            width *= std::stoi(suffix.substr(1));
        } else if (suffix == "16dp128bit") {
            width *= 2;
        } else if (suffix == "16dp256bit") {
            width *= 4;
        } else if (!among(suffix, "16dp32bit_t0_t15 16dp32bit_t16_t31 16dp64bit PACK16BIT")) {
            return 0;
        }
    }
    return width;
}

// How many registers a result has; 0 if that is not known.
inline int width_of(const Sass &sass) {
    const std::string &name = sass.name;
    if (among(name, "B2R BMSK BREV F2FP F2IP FADD FADD32I FFMA FFMA32I FHADD FHFMA FLO FMNMX FMNMX3 FMUL FMUL32I "
                    "FSEL FSET FSWZADD HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 I2FP I2I "
                    "I2IP IABS IADD3 IADD32I IDP ISCADD ISCADD32I LEA LOP LOP3 LOP32I MATCH MOV32I MUFU P2R POPC "
                    "PRMT QSPC S2R SGXT SHF SHFL SHL SHR VABSDIFF VABSDIFF4 VHMNMX VIADD VIADDMNMX VIMNMX3 VOTE")) {
        return 1;
    }
    if (among(name, "CLMAD DADD DFMA DMNMX DMUL FADD2 FFMA2 FMUL2 GETLMEMBASE LEPC")) return 2;
    if (among(name, "ATOM ATOMG ATOMS LD LDC LDG LDGMC LDL LDS SUATOM SULD")) {
        return has_any(sass, "256 P") ? 0 : std::max(bits_of(sass) / 32, 1);
    }
    if (among(name, "IADD IMAD IMNMX MOV SEL VIMNMX")) return has_any(sass, "64 S64 U64 WIDE") ? 2 : 1;
    if (among(name, "HMMA QMMA OMMA IMMA BMMA DMMA")) return width_of_tensor(sass);
    if (name == "LDSM") return (has(sass, "4") ? 4 : has(sass, "2") ? 2 : 1) * (has(sass, "MT1616") ? 2 : 1);
    if (name == "LDTM") return width_from_tensor_memory(sass);
    if (name == "MOVM") return has(sass, "MT88") ? 1 : has_any(sass, "M832 M864") ? 2 : 0;
    if (name == "CS2R") return has(sass, "32") ? 1 : 2;
    if (among(name, "F2F FRND")) {  // the first type is that of the destination
        for (const std::string &suffix : sass.suffixes) {
            if (among(suffix, "F16 F32 F64 BF16")) return suffix == "F64" ? 2 : 1;
        }
        return 1;
    }
    if (name == "I2F") return has(sass, "F64") ? 2 : 1;
    if (name == "F2I") return has_any(sass, "S64 U64") ? 2 : 1;
    if (name == "SYNCS") return has(sass, "ARRIVE") && has(sass, "TRANS64") ? 2 : 0;
    if (among(name, "BMOV RPCMOV")) return has(sass, "32") ? 1 : 0;
    return 0;
}

// Widths of the two destinations of a texture instruction, of which the last operand may be a mask
// of the components, or of a load of 256 bits; nothing if they are not known.
inline std::vector<int> two_widths(const Sass &sass) {
    if (has(sass, "ENL2")) {
        bool whole = among(sass.name, "LD LDG") && has(sass, "256");
        return whole ? std::vector<int>{4, 4} : std::vector<int>{};
    }
    const std::string &last = sass.operands.back();
    unsigned long mask = 15;
    if (starts_with(last, "0x")) mask = last.size() == 3 ? strtoul(last.c_str(), nullptr, 16) : 0;
    if (!among(sass.name, "TEX TLD TLD4 TXD") || !mask || has_any(sass, "F16 P")) return {};
    int components = __builtin_popcountl(mask);
    return {std::max(components - 2, 0), std::min(components, 2)};
}

// The destination is the first operand, or the first after predicates; few instructions have two.
inline Written written_by(const Sass &sass) {
    Written written;
    if (begins_with_a_source(sass.name)) return written;
    size_t at = 0, count = has_two_destinations(sass) ? 2 : 1;
    while (at < sass.operands.size() && !sass.operands[at].empty() && is_predicate(sass.operands[at])) at++;
    std::vector<int> first;
    for (size_t i = at; i < at + count && i < sass.operands.size(); i++) {
        int number = sass.operands[i] == "RZ" ? 255 : register_of(sass.operands[i]);
        if (number >= 0 && number <= 255) first.push_back(number);
    }
    if (first.size() < count || *std::min_element(first.begin(), first.end()) > 254) return written;
    std::vector<int> widths = count == 2 ? two_widths(sass) : std::vector<int>{width_of(sass)};
    written.known = !widths.empty() && (count == 2 || widths[0] > 0);
    for (size_t i = 0; written.known && i < count; i++) {
        for (int n = first[i]; n < std::min(first[i] + widths[i], 255); n++) written.registers.push_back(n);
    }
    std::sort(written.registers.begin(), written.registers.end());
    auto end = std::unique(written.registers.begin(), written.registers.end());
    written.registers.erase(end, written.registers.end());
    return written;
}

// Whether any operand is a register, or an address in one.
inline bool reads_registers(const Sass &sass) {
    for (const std::string &operand : sass.operands) {
        for (size_t at = operand.find('R'); at != std::string::npos; at = operand.find('R', at + 1)) {
            bool begins = at == 0 || !(isalnum(static_cast<unsigned char>(operand[at - 1])) || operand[at - 1] == '_');
            if (begins && at + 1 < operand.size() && isdigit(static_cast<unsigned char>(operand[at + 1]))) return true;
        }
    }
    return false;
}

// Whether the guard may have changed when the point after the instruction is reached.
inline bool overwrites_its_guard(const Sass &sass) {
    std::string guard = sass.guard.substr(starts_with(sass.guard, "!") ? 1 : 0);
    if (guard.empty()) return false;
    for (size_t i = 0; i < sass.operands.size() && i < 3; i++) {
        if (sass.operands[i] == guard) return true;
    }
    return false;
}

}  // namespace mcage
