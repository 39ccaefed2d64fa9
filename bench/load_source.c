/* What is sent, and what the server's processes use meanwhile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "bench/load.h"
#include "crypto/digest.h"
#include "crypto/random.h"

#define PATTERN_SIZE ((size_t)8 << 20) /* larger than the caches, so that sending reads memory as real files do */

static uint8_t pattern[PATTERN_SIZE];

/* The bytes from `offset` on that lie together, and how many. */
static struct bytes stretch(const struct load_blob *blob, uint64_t offset, size_t length)
{
    const bool in_prefix = offset < sizeof blob->prefix;
    const size_t at = in_prefix ? (size_t)offset : (size_t)((offset - sizeof blob->prefix) % PATTERN_SIZE);
    const size_t room = in_prefix ? sizeof blob->prefix - at : PATTERN_SIZE - at;

    return (struct bytes){(in_prefix ? blob->prefix : pattern) + at, length < room ? length : room};
}

void load_blob_bytes(const struct load_blob *blob, uint64_t offset, uint8_t *place, size_t length)
{
    while (length > 0) {
        const struct bytes bytes = stretch(blob, offset, length);
        memcpy(place, bytes.data, bytes.length);
        place += bytes.length;
        offset += bytes.length;
        length -= bytes.length;
    }
}

bool load_blob_matches(const struct load_blob *blob, uint64_t offset, const uint8_t *place, size_t length)
{
    while (length > 0) {
        const struct bytes bytes = stretch(blob, offset, length);
        if (memcmp(place, bytes.data, bytes.length) != 0) return false;
        place += bytes.length;
        offset += bytes.length;
        length -= bytes.length;
    }
    return true;
}

bool load_make_blob(struct load_blob *blob, uint64_t size)
{
    OWNED(hasher) *hasher = NULL;
    struct error err = {0};

    random_bytes(blob->prefix, sizeof blob->prefix);
    if (!hasher_new(DIGEST_SHA256, &hasher, &err).ok) return false;
    hasher_add(hasher, (struct bytes){blob->prefix, sizeof blob->prefix});
    for (uint64_t left = size - sizeof blob->prefix; left > 0;) {
        const size_t count = left < PATTERN_SIZE ? (size_t)left : PATTERN_SIZE;
        hasher_add(hasher, (struct bytes){pattern, count});
        left -= count;
    }
    const struct digest digest = hasher_digest(hasher);
    char text[DIGEST_TEXT_SIZE];
    digest_format(&digest, text);
    (void)snprintf(blob->digest, sizeof blob->digest, "%s", text);
    return true;
}

bool load_make_blobs(struct load *load)
{
    random_bytes(pattern, sizeof pattern);
    for (unsigned i = 0; i < load->options.count; i++)
        if (!load_make_blob(&load->blobs[i], load->options.size)) return false;
    return true;
}

bool load_read_paths(struct load *load)
{
    char line[2048];
    FILE *file = load->options.paths_file == NULL ? NULL : fopen(load->options.paths_file, "re");

    load->paths = memory_zeroed(LOAD_PATHS_MAX, sizeof *load->paths);
    while (file != NULL && load->paths != NULL && load->path_count < LOAD_PATHS_MAX && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strchr(line, ' ') == NULL) continue;
        load->paths[load->path_count] = memory_copy_text(line, strlen(line));
        if (load->paths[load->path_count] == NULL) break;
        load->path_count++;
    }
    if (file != NULL) (void)fclose(file);
    if (load->path_count == 0) (void)fprintf(stderr, "--paths names no file with paths in it\n");
    return load->path_count > 0;
}

void load_free_paths(struct load *load)
{
    for (unsigned i = 0; i < load->path_count; i++) free(load->paths[i]);
    free(load->paths);
}

double load_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The number after the n-th blank behind the program's name in /proc/PID/stat (proc(5)). */
static double stat_field(int pid, unsigned field)
{
    char path[64], line[2048];
    uint64_t value = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    const size_t length = fread(line, 1, sizeof line - 1, file);
    (void)fclose(file);
    line[length] = '\0';
    const char *at = strrchr(line, ')');
    for (unsigned i = 2; at != NULL && i < field; i++) at = strchr(at + 1, ' ');
    if (at == NULL) return 0;
    at++;
    (void)text_to_u64((struct bytes){(const uint8_t *)at, strcspn(at, " ")}, UINT64_MAX, &value);
    return (double)value;
}

double load_cpu_seconds(const struct load_options *options)
{
    double ticks = 0;

    for (unsigned i = 0; i < options->pid_count; i++)
        ticks += stat_field(options->pids[i], 14) + stat_field(options->pids[i], 15);
    for (unsigned i = 0; i < options->database_pid_count; i++)
        ticks += stat_field(options->database_pids[i], 14) + stat_field(options->database_pids[i], 15);
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

double load_own_cpu_seconds(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

double load_peak_mib(const struct load_options *options)
{
    char path[64], line[256];
    double total = 0;

    for (unsigned i = 0; i < options->pid_count; i++) {
        (void)snprintf(path, sizeof path, "/proc/%d/status", options->pids[i]);
        FILE *file = fopen(path, "re");
        if (file == NULL) continue;
        while (fgets(line, sizeof line, file) != NULL) {
            uint64_t kib = 0;
            if (strncmp(line, "VmHWM:", 6) != 0) continue;
            const char *at = line + 6 + strspn(line + 6, " \t");
            (void)text_to_u64((struct bytes){(const uint8_t *)at, strcspn(at, " ")}, UINT64_MAX, &kib);
            total += (double)kib / 1024;
        }
        (void)fclose(file);
    }
    return total;
}

void load_reset_peak(const struct load_options *options)
{
    char path[64];

    for (unsigned i = 0; i < options->pid_count; i++) {
        (void)snprintf(path, sizeof path, "/proc/%d/clear_refs", options->pids[i]);
        FILE *file = fopen(path, "we");
        if (file == NULL) continue;
        (void)fputs("5", file);
        (void)fclose(file);
    }
}
