// The recording: its file, and what its user asks for in environment variables.
//
// A file is the line "mcage recording 1", then JSON objects and packets, one a line. A packet is a P
// and its bytes (packets.h) in hexadecimal, as they lie in memory. Plain C++17 for the host.
#pragma once

#include <regex.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "packets.h"
#include "sass.h"

namespace mcage {

// One JSON object, in the order in which its keys are added.
class Line {
   public:
    explicit Line(const char *type) { add("type", type); }
    Line &add(const char *key, const std::string &value) { return raw(key, quoted(value)); }
    Line &add(const char *key, const char *value) { return add(key, std::string(value)); }
    Line &add(const char *key, unsigned long long value) { return raw(key, std::to_string(value)); }
    Line &list(const char *key, const std::vector<unsigned> &values) {
        std::string text;
        for (unsigned value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
        return raw(key, "[" + text + "]");
    }
    std::string text() const { return "{" + content_ + "}\n"; }

   private:
    Line &raw(const char *key, const std::string &value) {
        content_ += (content_.empty() ? "" : ",") + quoted(key) + ":" + value;
        return *this;
    }
    static std::string quoted(const std::string &value) {
        std::string result = "\"";
        for (unsigned char c : value) {
            char escaped[8];
            if (c == '"' || c == '\\') {
                result += '\\';
                result += char(c);
            } else if (c < 0x20 || c == 0x7f) {
                snprintf(escaped, sizeof escaped, "\\u%04x", unsigned(c));
                result += escaped;
            } else {
                result += char(c);
            }
        }
        return result + "\"";
    }
    std::string content_;
};

class File {
   public:
    ~File() {
        if (file_) fclose(file_);
    }
    void open(const std::string &path) {
        path_ = path;
        file_ = fopen(path.c_str(), "wb");
        if (!file_) throw std::runtime_error(path + ": cannot be written");
        bytes("mcage recording 1\n", 18);
    }
    void write(const Line &line) { bytes(line.text().data(), line.text().size()); }
    // All packets of a launch. Absent lanes hold 0, so that equal runs give equal files.
    void packets(unsigned launch, std::vector<unsigned char> &buffer, unsigned long long lost) {
        unsigned long long count = 0;
        for (size_t at = 0; at + sizeof(Packet) <= buffer.size(); count++) {
            Packet packet;
            memcpy(&packet, &buffer[at], sizeof packet);
            size_t size = packet.kind == writes ? write_bytes : sizeof packet;
            if (at + size > buffer.size()) break;
            for (unsigned lane = 0; packet.kind == writes && lane < lanes; lane++) {
                if (!(packet.mask >> lane & 1)) memset(&buffer[at + sizeof packet + 4 * lane], 0, 4);
            }
            hexadecimal(&buffer[at], size);
            at += size;
        }
        write(Line("packets").add("launch", launch).add("packets", count).add("lost_bytes", lost));
        if (fflush(file_)) throw std::runtime_error(path_ + ": no space left?");
    }

   private:
    void hexadecimal(const unsigned char *data, size_t size) {
        static const char digits[] = "0123456789abcdef";
        char line[2 * write_bytes + 2], *to = line;
        *to++ = 'P';
        for (size_t i = 0; i < size; i++) {
            *to++ = digits[data[i] >> 4];
            *to++ = digits[data[i] & 15];
        }
        *to++ = '\n';
        bytes(line, size_t(to - line));
    }
    void bytes(const void *data, size_t size) {
        if (fwrite(data, 1, size, file_) != size) throw std::runtime_error(path_ + ": cannot be written");
    }
    std::string path_;
    FILE *file_ = nullptr;
};

// First and last number of "3" or "3-7"; the last is at most `most`.
inline std::pair<unsigned, unsigned> range_of(const char *name, const char *text, unsigned most) {
    char *end = nullptr;
    unsigned long first = strtoul(text, &end, 10), last = first;
    bool good = end != text && *text != '-';
    if (good && *end == '-') {
        const char *second = end + 1;
        last = *second ? strtoul(second, &end, 10) : most;
        if (!*second) end = const_cast<char *>(second);
    }
    if (!good || *end || first > last || first > most) {
        throw std::runtime_error(std::string(name) + "=" + text + ": a number, or a range such as 3-7");
    }
    return {unsigned(first), unsigned(std::min<unsigned long>(last, most))};
}

struct Wishes {
    std::string path, kernels;
    std::pair<unsigned, unsigned> launches, sms;
    unsigned long long buffer_bytes = 0;

    static Wishes from_environment() {
        auto given = [](const char *name, const char *otherwise) {
            const char *value = getenv(name);
            return value && *value ? value : otherwise;
        };
        Wishes wishes;
        wishes.path = given("RECORD_FILE", "recording.mcr");
        wishes.kernels = given("RECORD_KERNELS", "");
        wishes.launches = range_of("RECORD_LAUNCHES", given("RECORD_LAUNCHES", "0-"), 0xFFFFFFFEu);
        wishes.sms = range_of("RECORD_SMS", given("RECORD_SMS", "0"), 0xFFFF);
        auto megabytes = range_of("RECORD_BUFFER", given("RECORD_BUFFER", "1024"), 1u << 20);
        wishes.buffer_bytes = megabytes.first * (1ull << 20);
        return wishes;
    }
    bool want(unsigned launch, const std::string &kernel) const {
        if (launch < launches.first || launch > launches.second) return false;
        if (kernels.empty()) return true;
        regex_t pattern;
        if (regcomp(&pattern, kernels.c_str(), REG_EXTENDED | REG_NOSUB)) {
            throw std::runtime_error("RECORD_KERNELS=" + kernels + ": no regular expression");
        }
        bool matches = regexec(&pattern, kernel.c_str(), 0, nullptr, 0) == 0;
        regfree(&pattern);
        return matches;
    }
};

}  // namespace mcage
