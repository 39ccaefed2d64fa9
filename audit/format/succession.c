#include "audit/format/succession.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/text_rules_priv.h"
#include "base/text.h"
#include "crypto/digest.h"

#define NUMBER_MAX UINT32_MAX

struct result succession_origin(const char *registry, uint64_t number, char origin_out[CHECKPOINT_ORIGIN_MAX + 1],
                                struct error *err)
{
    const int length = number == 1
                           ? snprintf(origin_out, CHECKPOINT_ORIGIN_MAX + 1, "%s", registry)
                           : snprintf(origin_out, CHECKPOINT_ORIGIN_MAX + 1, "%s/%llu", registry, (unsigned long long)number);

    if (length >= 0 && length <= CHECKPOINT_ORIGIN_MAX && number >= 1 && number <= NUMBER_MAX) return SUCCESS;
    return failure(err, ERROR_LIMIT, "the origin of a log has at most %d letters", CHECKPOINT_ORIGIN_MAX);
}

uint64_t succession_number(const char *origin, const char *registry)
{
    const size_t length = strlen(registry);
    uint64_t number = 0;

    if (strncmp(origin, registry, length) != 0) return 0;
    if (origin[length] == '\0') return 1;
    if (origin[length] != '/' || !text_to_u64(bytes_of_text(origin + length + 1), NUMBER_MAX, &number)) return 0;
    return number < 2 ? 0 : number;
}

/* The text of the note, with its last line feed. */
static struct result read_checkpoint(struct bytes note, struct checkpoint *checkpoint_out, struct error *err)
{
    const uint8_t *end = memmem(note.data, note.length, "\n\n", 2);

    if (end == NULL) return failure(err, ERROR_INVALID, "the statement has no checkpoint of the log that ends");
    return checkpoint_read((struct bytes){note.data, (size_t)(end - note.data) + 1}, checkpoint_out, err);
}

struct result succession_detail(const struct succession *succession, struct bytes statement,
                                char detail_out[SUCCESSION_DETAIL_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER root = BUFFER(64);
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];
    struct checkpoint checkpoint;

    TRY(read_checkpoint(succession->checkpoint, &checkpoint, err));
    sha256_of(statement, digest);
    text_hex(digest, sizeof digest, hex);
    TRY(text_base64(&root, BASE64_URL, (struct bytes){checkpoint.root.bytes, MERKLE_HASH_SIZE}, err));
    (void)snprintf(detail_out, SUCCESSION_DETAIL_SIZE, "sha256:%s %llu %s %u", hex, (unsigned long long)checkpoint.size,
                   buffer_text(&root), succession->officers);
    return SUCCESS;
}

/* ---- writing ---- */

static struct result add_line(struct buffer *text, const char *name, const struct succession_log *log, struct error *err)
{
    TRY(buffer_format(text, err, "%s %s %llu ", name, log->origin, (unsigned long long)log->size));
    TRY(text_base64(text, BASE64_STANDARD, (struct bytes){log->root.bytes, sizeof log->root.bytes}, err));
    return buffer_add_u8(text, '\n', err);
}

static struct result add_pins(const struct succession *succession, struct buffer *text, struct error *err)
{
    for (size_t i = 0; i < DOCUMENT_KINDS_MAX; i++) {
        const struct document_pin *pin = &succession->pins[i];
        if (pin->epoch == 0) continue;
        TRY(buffer_format(text, err, "pin %zu %llu ", i + 1, (unsigned long long)pin->epoch));
        TRY(text_base64(text, BASE64_STANDARD, (struct bytes){pin->digest, sizeof pin->digest}, err));
        TRY(buffer_add_u8(text, '\n', err));
    }
    return SUCCESS;
}

static struct result add_key(const struct succession *succession, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "key ", err));
    TRY(note_key_write(&succession->key, text, err));
    return buffer_format(text, err, "\nofficers %u\n", succession->officers);
}

struct result succession_write(const struct succession *succession, struct buffer *text, struct error *err)
{
    struct succession again;
    const size_t begin = text->length;

    TRY(buffer_format(text, err, SUCCESSION_TITLE "\nregistry %s\n", succession->registry));
    TRY(add_line(text, "before", &succession->before, err));
    TRY(add_line(text, "after", &succession->after, err));
    TRY(add_key(succession, text, err));
    TRY(buffer_format(text, err, "made %llu\nreason %s\n", (unsigned long long)succession->made_ms, succession->reason));
    TRY(add_pins(succession, text, err));
    TRY(buffer_add_u8(text, '\n', err));
    TRY(buffer_add(text, succession->checkpoint.data, succession->checkpoint.length, err));
    return succession_read((struct bytes){text->data + begin, text->length - begin}, &again, err);
}

/* ---- reading ---- */

struct lines {
    struct bytes left;
    const char *wrong; /* what the first line that is not as it must be is; NULL: none */
};

/* The rest of the next line, which begins with `name` and a space. */
static struct bytes take(struct lines *lines, const char *name)
{
    struct bytes line = {NULL, 0};
    const size_t length = strlen(name);

    if (lines->wrong == NULL && next_line(&lines->left, &line) && line.length > length + 1 &&
        memcmp(line.data, name, length) == 0 && line.data[length] == ' ')
        return (struct bytes){line.data + length + 1, line.length - length - 1};
    if (lines->wrong == NULL) lines->wrong = name;
    return (struct bytes){NULL, 0};
}

static bool copy_text(struct bytes from, char *into, size_t size)
{
    if (from.length == 0 || from.length >= size || !text_is_visible(from) || memchr(from.data, '\0', from.length) != NULL)
        return false;
    memcpy(into, from.data, from.length);
    into[from.length] = '\0';
    return true;
}

static void take_log(struct lines *lines, const char *name, struct succession_log *log)
{
    struct bytes rest = take(lines, name);
    const struct bytes origin = text_cut(&rest, ' '), size = text_cut(&rest, ' ');

    if (lines->wrong != NULL) return;
    if (!copy_text(origin, log->origin, sizeof log->origin) || !text_to_u64(size, MERKLE_SIZE_MAX, &log->size) ||
        !text_from_base64_exactly(BASE64_STANDARD, rest, log->root.bytes, sizeof log->root.bytes))
        lines->wrong = name;
}

/* A key has several spellings in base64, and the statement has one. */
static void take_key(struct lines *lines, struct note_key *key)
{
    struct buffer OWNED_BUFFER again = BUFFER(512);
    const struct bytes rest = take(lines, "key");
    struct error why;

    if (lines->wrong != NULL) return;
    if (!note_key_read(rest, key, &why).ok || key->algorithm != NOTE_ED25519 || !note_key_write(key, &again, &why).ok ||
        !bytes_equal(rest, buffer_bytes(&again)))
        lines->wrong = "key";
}

static void take_officers(struct lines *lines, unsigned *officers)
{
    const struct bytes rest = take(lines, "officers");
    uint64_t number = 0;

    if (lines->wrong == NULL && (!text_to_u64(rest, SUCCESSION_OFFICERS_MAX, &number) || number == 0)) lines->wrong = "officers";
    *officers = (unsigned)number;
}

static void take_text(struct lines *lines, const char *name, char *into, size_t size)
{
    const struct bytes rest = take(lines, name);

    if (lines->wrong == NULL && !copy_text(rest, into, size)) lines->wrong = name;
}

/* One line for each kind, the kinds in their order. */
static void take_pin(struct lines *lines, uint64_t *last, struct succession *succession)
{
    struct bytes rest = take(lines, "pin");
    const struct bytes kind = text_cut(&rest, ' '), epoch = text_cut(&rest, ' ');
    struct document_pin pin = {0};
    uint64_t number = 0;

    if (lines->wrong != NULL) return;
    if (!text_to_u64(kind, DOCUMENT_KINDS_MAX, &number) || number <= *last || !text_to_u64(epoch, INT64_MAX, &pin.epoch) ||
        pin.epoch == 0 || !text_from_base64_exactly(BASE64_STANDARD, rest, pin.digest, sizeof pin.digest)) {
        lines->wrong = "pin";
        return;
    }
    succession->pins[number - 1] = pin;
    *last = number;
}

static struct result check(const struct succession *succession, struct error *err)
{
    const uint64_t before = succession_number(succession->before.origin, succession->registry),
                   after = succession_number(succession->after.origin, succession->registry);
    struct checkpoint checkpoint;

    if (before == 0 || after != before + 1)
        return failure(err, ERROR_INVALID, "the log after %.60s of the registry %.60s has another origin than %.60s",
                       succession->before.origin, succession->registry, succession->after.origin);
    if (strcmp(succession->key.name, succession->after.origin) != 0)
        return failure(err, ERROR_INVALID, "the key of the statement is not of the log %.60s", succession->after.origin);
    return read_checkpoint(succession->checkpoint, &checkpoint, err);
}

static struct result take_title(struct lines *lines, struct error *err)
{
    struct bytes line;

    if (!next_line(&lines->left, &line)) line = (struct bytes){NULL, 0};
    if (bytes_equal(line, bytes_of_text(SUCCESSION_TITLE))) return SUCCESS;
    if (!bytes_equal(line, bytes_of_text(SUCCESSION_FIRST_TITLE)))
        return failure(err, ERROR_INVALID, "a statement about a new origin begins with " SUCCESSION_TITLE);
    return failure(
        err, ERROR_INVALID,
        "the statement is of version 1, which does not name the key of the new log, and counts no more: make another plan "
        "(docs/recovery.md). One by which a log goes on already is checked with sijil-verify of that time");
}

struct result succession_read(struct bytes text, struct succession *succession_out, struct error *err)
{
    struct succession read = {.made_ms = 0};
    struct lines lines = {.left = text};
    struct bytes line, made;
    uint64_t last = 0;

    if (text.length > SUCCESSION_MAX) return failure(err, ERROR_LIMIT, "a statement of more than %d bytes", SUCCESSION_MAX);
    TRY(take_title(&lines, err));
    take_text(&lines, "registry", read.registry, sizeof read.registry);
    take_log(&lines, "before", &read.before);
    take_log(&lines, "after", &read.after);
    take_key(&lines, &read.key);
    take_officers(&lines, &read.officers);
    made = take(&lines, "made");
    if (lines.wrong == NULL && !text_to_u64(made, INT64_MAX, &read.made_ms)) lines.wrong = "made";
    take_text(&lines, "reason", read.reason, sizeof read.reason);
    while (lines.wrong == NULL && lines.left.length > 0 && lines.left.data[0] != '\n') take_pin(&lines, &last, &read);
    if (lines.wrong == NULL && (!next_line(&lines.left, &line) || line.length != 0)) lines.wrong = "empty";
    if (lines.wrong != NULL)
        return failure(err, ERROR_INVALID, "the line \"%s\" of the statement about a new origin is missing or wrong",
                       lines.wrong);
    read.checkpoint = lines.left;
    TRY(check(&read, err));
    *succession_out = read;
    return SUCCESS;
}
