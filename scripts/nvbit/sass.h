// Which registers an instruction writes, from its SASS text alone.
//
// Plain C++17 for the host. `mcage/traces/importing/nvidia/sass.py` says the same in Python; the tests
// compare both.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace mcage {

struct Sass {
    std::string guard;                  // "P0", "!P3", "UP1"; empty without a guard
    std::string name;                   // "IMAD"
    std::vector<std::string> suffixes;  // "WIDE", "U32"
    std::vector<std::string> operands;  // as written, trimmed
};

struct Destination {
    int first = -1;  // -1: no register is written
    int count = 0;
};

inline bool starts_with(const std::string &text, const char *start) { return text.rfind(start, 0) == 0; }

inline bool contains(std::initializer_list<const char *> words, const std::string &word) {
    return std::any_of(words.begin(), words.end(), [&](const char *other) { return word == other; });
}

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

// Instructions whose first register is a source: they write memory, predicates, barriers or nothing.
inline bool writes_no_register(const std::string &name) {
    return contains({"ST",    "STG",   "STS",    "STL",  "STSM", "STAS",  "SUST",  "SURED", "RED",   "REDG",
                     "REDAS", "ISETP", "FSETP",  "DSETP", "HSETP2", "VSETP", "PSETP", "CSETP", "FCHK",  "R2P",
                     "PLOP3", "EXIT",  "BRA",    "BRX",  "JMP",  "JMX",   "BRXU",  "JMXU",  "CALL",  "RET",
                     "BAR",   "BSSY",  "BSYNC",  "BREAK", "WARPSYNC", "NANOSLEEP", "YIELD", "NOP", "BPT", "KILL",
                     "MEMBAR", "ERRBAR", "DEPBAR", "LDGDEPBAR", "LDGSTS", "CCTL", "CCTLL", "CCTLT", "PREFETCH",
                     "R2B",   "RPCMOV", "SYNCS", "ARRIVES", "ACQBULK", "UBLKCP", "UBLKRED", "UBLKPF",
                     "HGMMA", "IGMMA", "QGMMA", "BGMMA", "WARPGROUP", "RTT", "IDE", "PMTRIG", "SETCTAID",
                     "SETLMEMBASE", "SUQUERY", "VOTEU", "TEXDEPBAR", "ELECT", "ENDCOLLECTIVE", "WARPGROUPSET"},
                    name);
}

inline int registers_written(const Sass &sass) {
    const std::string &name = sass.name;
    if (contains({"HMMA", "IMMA", "QMMA", "OMMA", "BMMA"}, name)) {
        if (has(sass, "884")) return has(sass, "F32") ? 8 : 4;
        if (has(sass, "8816") || has(sass, "8832") || has(sass, "88128")) return 2;
        bool halves = !sass.suffixes.empty() && contains({"HMMA", "QMMA"}, name) && !has(sass, "F32");
        return halves ? 2 : 4;
    }
    if (name == "DMMA") return has(sass, "884") ? 4 : 8;
    if (name == "LDSM") return has(sass, "4") ? 4 : has(sass, "2") ? 2 : 1;
    if (contains({"DADD", "DMUL", "DFMA", "DMNMX", "FADD2", "FMUL2", "FFMA2"}, name)) return 2;
    if (name == "IMAD" && has(sass, "WIDE")) return 2;
    if (name == "CS2R") return has(sass, "32") ? 1 : 2;
    if (contains({"F2F", "FRND"}, name)) {  // the first type is that of the destination
        for (const std::string &suffix : sass.suffixes) {
            if (contains({"F16", "F32", "F64", "BF16"}, suffix)) return suffix == "F64" ? 2 : 1;
        }
        return 1;
    }
    if (name == "I2F") return has(sass, "F64") ? 2 : 1;
    if (name == "F2I") return has(sass, "S64") || has(sass, "U64") ? 2 : 1;
    bool memory = contains({"LD", "LDG", "LDS", "LDL", "LDC", "ATOM", "ATOMG", "ATOMS", "SULD"}, name);
    if (memory || contains({"IADD", "MOV", "SEL", "IMAD"}, name)) {
        return has(sass, "128") ? 4 : has(sass, "64") || has(sass, "F64") ? 2 : 1;
    }
    return 1;
}

// The destination is the first operand, or the first after predicates.
inline Destination destination_of(const Sass &sass) {
    if (writes_no_register(sass.name)) return {};
    for (const std::string &operand : sass.operands) {
        if (operand.empty()) return {};
        if (is_predicate(operand)) continue;
        int number = register_of(operand);
        if (number < 0 || number > 254) return {};
        return {number, std::min(registers_written(sass), 255 - number)};
    }
    return {};
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
