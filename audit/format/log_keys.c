#include "audit/format/log_keys.h"

#include <string.h>

#include "audit/format/text_rules_priv.h"
#include "base/memory.h"
#include "base/text.h"

#define TEXT_LINES 6 /* of a handover; then the empty line, and two signatures */
#define NOTE_LINES (TEXT_LINES + 3)

struct result log_handover_write(const struct log_handover *handover, struct buffer *text, struct error *err)
{
    const struct bytes root = {handover->root.bytes, sizeof handover->root.bytes};

    TRY(buffer_format(text, err, LOG_HANDOVER "\n%s\n%llu\n", handover->origin, (unsigned long long)handover->size));
    TRY(text_base64(text, BASE64_STANDARD, root, err));
    TRY(buffer_add_u8(text, '\n', err));
    TRY(note_key_write(&handover->old, text, err));
    TRY(buffer_add_u8(text, '\n', err));
    TRY(note_key_write(&handover->new, text, err));
    return buffer_add_u8(text, '\n', err);
}

static struct result read_values(struct bytes lines, struct log_handover *handover, struct error *err)
{
    struct bytes title, origin, size, root, old, new;

    if (!next_line(&lines, &title) || !next_line(&lines, &origin) || !next_line(&lines, &size) || !next_line(&lines, &root) ||
        !next_line(&lines, &old) || !next_line(&lines, &new) || lines.length > 0 ||
        !bytes_equal(title, bytes_of_text(LOG_HANDOVER)) || origin.length > CHECKPOINT_ORIGIN_MAX ||
        !text_to_u64(size, MERKLE_SIZE_MAX, &handover->size) ||
        !text_from_base64_exactly(BASE64_STANDARD, root, handover->root.bytes, sizeof handover->root.bytes))
        return failure(err, ERROR_INVALID,
                       "a handover of log keys has six lines: %s, origin, size, root, the old and the new key", LOG_HANDOVER);
    memcpy(handover->origin, origin.data, origin.length);
    handover->origin[origin.length] = '\0';
    TRY(note_key_read(old, &handover->old, err));
    return note_key_read(new, &handover->new, err);
}

/* The spelling is the one that log_handover_write() gives, because the signatures are over the bytes. */
static struct result read_handover(struct bytes text, struct log_handover *handover_out, struct error *err)
{
    struct log_handover handover = {.size = 0};

    TRY(read_values(text, &handover, err));
    if (strcmp(handover.old.name, handover.origin) != 0 || strcmp(handover.new.name, handover.origin) != 0 ||
        handover.old.algorithm != NOTE_ED25519 || handover.new.algorithm != NOTE_ED25519)
        return failure(err, ERROR_INVALID, "a handover names keys of another log than %.100s", handover.origin);
    *handover_out = handover;
    return SUCCESS;
}

static bool is_same(const struct note_key *a, const struct note_key *b)
{
    return strcmp(a->name, b->name) == 0 && a->algorithm == b->algorithm &&
           memcmp(a->public_key, b->public_key, sizeof a->public_key) == 0;
}

static bool has_key(const struct log_keys *keys, const struct note_key *key)
{
    for (size_t i = 0; i < keys->count; i++)
        if (is_same(&keys->keys[i], key)) return true;
    return false;
}

/* The handovers of a text, each signed by both of its keys. */
struct chain {
    size_t count;
    struct log_handover each[LOG_KEYS_MAX - 1];
};

static struct result check_both(const struct note *note, const struct log_handover *handover, struct error *err)
{
    struct error why = {0};

    if (note_verify(note, &handover->old, NULL, &why).ok && note_verify(note, &handover->new, NULL, &why).ok) return SUCCESS;
    return failure(err, why.kind, "the handover of log keys at %llu entries is not signed by both keys: %.150s",
                   (unsigned long long)handover->size, why.message);
}

/* Two parties may show the same one. */
static bool has_handover(const struct chain *chain, const struct log_handover *handover)
{
    for (size_t i = 0; i < chain->count; i++)
        if (is_same(&chain->each[i].old, &handover->old) && is_same(&chain->each[i].new, &handover->new) &&
            chain->each[i].size == handover->size && merkle_hash_equal(&chain->each[i].root, &handover->root))
            return true;
    return false;
}

static struct result take(struct chain *chain, const struct note *note, struct error *err)
{
    struct log_handover handover;

    TRY(read_handover(note->text, &handover, err));
    TRY(check_both(note, &handover, err));
    if (handover.size == 0) return failure(err, ERROR_DENIED, "an empty log has no key that another one could follow");
    if (has_handover(chain, &handover)) return SUCCESS;
    if (chain->count == LOG_KEYS_MAX - 1) return failure(err, ERROR_LIMIT, "more than %d keys of one log", LOG_KEYS_MAX);
    chain->each[chain->count++] = handover;
    return SUCCESS;
}

static struct result check_added(const struct log_keys *keys, const struct note_key *key, uint64_t before, uint64_t after,
                                 struct error *err)
{
    if (has_key(keys, key)) return failure(err, ERROR_DENIED, "a log can't return to a key that it had before");
    if (before >= after) return failure(err, ERROR_DENIED, "the handovers of log keys are not in the order of the log");
    return SUCCESS;
}

static struct result append(struct log_keys *keys, const struct log_handover *handover, struct error *err)
{
    const uint64_t last = keys->count == 1 ? 0 : keys->starts[keys->count - 1].size;

    TRY(check_added(keys, &handover->new, last, handover->size, err));
    keys->keys[keys->count] = handover->new;
    keys->starts[keys->count] = (struct log_start){handover->size, handover->root};
    keys->count++;
    return SUCCESS;
}

/* The new key vouches for the old one, up to the size that it states. */
static struct result prepend(struct log_keys *keys, const struct log_handover *handover, struct error *err)
{
    const uint64_t next = keys->count == 1 ? UINT64_MAX : keys->starts[1].size;

    TRY(check_added(keys, &handover->old, handover->size, next, err));
    memmove(keys->keys + 1, keys->keys, keys->count * sizeof keys->keys[0]);
    memmove(keys->starts + 1, keys->starts, keys->count * sizeof keys->starts[0]);
    keys->keys[0] = handover->old;
    keys->starts[0] = (struct log_start){.size = 0};
    keys->starts[1] = (struct log_start){handover->size, handover->root};
    keys->count++;
    return SUCCESS;
}

/* From the trusted key in both directions. A handover that does not lead to it counts for nothing. */
static struct result link_all(const struct chain *chain, struct log_keys *keys, struct error *err)
{
    for (size_t i = 0; i < chain->count; i++)
        if (is_same(&chain->each[i].old, log_keys_newest(keys))) TRY(append(keys, &chain->each[i], err));
    for (size_t i = chain->count; i > 0; i--)
        if (is_same(&chain->each[i - 1].new, &keys->keys[0])) TRY(prepend(keys, &chain->each[i - 1], err));
    return SUCCESS;
}

/* Takes the lines of one handover off `left`. */
static bool next_note(struct bytes *left, struct bytes *note_out)
{
    const struct bytes before = *left;
    struct bytes line;

    for (size_t i = 0; i < NOTE_LINES; i++)
        if (!next_line(left, &line)) return false;
    *note_out = (struct bytes){before.data, before.length - left->length};
    return true;
}

static struct result read_chain(struct bytes text, struct chain *chain, struct note *note, struct error *err)
{
    struct bytes bytes;

    while (text.length > 0) {
        if (!next_note(&text, &bytes))
            return failure(err, ERROR_INVALID, "behind the key of the log is no handover of keys: it is cut, or something else");
        TRY(note_read(bytes, note, err));
        TRY(take(chain, note, err));
    }
    return SUCCESS;
}

static struct result read_first(struct bytes vkey, struct log_keys *keys_out, struct error *err)
{
    struct note_key key;

    TRY(note_key_read(vkey, &key, err));
    if (key.algorithm != NOTE_ED25519)
        return failure(err, ERROR_INVALID, "this is the key of a witness; give the key of the log");
    log_keys_of(&key, keys_out);
    return SUCCESS;
}

/* A shell takes the last line feed off the content of a file. */
struct result log_keys_read(struct bytes text, struct log_keys *keys_out, struct error *err)
{
    struct buffer OWNED_BUFFER whole = BUFFER(LOG_KEYS_TEXT_MAX + 1);
    struct chain chain = {.count = 0};
    struct bytes left, vkey;
    struct log_keys keys;

    if (text.length > LOG_KEYS_TEXT_MAX)
        return failure(err, ERROR_LIMIT, "keys of a log of more than %d bytes", LOG_KEYS_TEXT_MAX);
    if (text.length == 0 || memchr(text.data, '\n', text.length) == NULL) return read_first(text, keys_out, err);
    TRY(buffer_add(&whole, text.data, text.length, err));
    if (text.data[text.length - 1] != '\n') TRY(buffer_add_u8(&whole, '\n', err));
    left = buffer_bytes(&whole);
    (void)next_line(&left, &vkey);
    TRY(read_first(vkey, &keys, err));
    struct note *note = memory_zeroed(1, sizeof *note); /* too large for the stack: the list of signatures is long */
    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of a log");
    const struct result read = read_chain(left, &chain, note, err);
    free(note);
    TRY(read);
    TRY(link_all(&chain, &keys, err));
    *keys_out = keys;
    return SUCCESS;
}

struct result log_keys_join(struct bytes trusted, struct bytes shown, struct buffer *text, struct error *err)
{
    struct bytes vkey;

    TRY(buffer_add(text, trusted.data, trusted.length, err));
    if (trusted.length > 0 && trusted.data[trusted.length - 1] != '\n') TRY(buffer_add_u8(text, '\n', err));
    if (!next_line(&shown, &vkey)) return SUCCESS;
    return buffer_add(text, shown.data, shown.length, err);
}

void log_keys_of(const struct note_key *key, struct log_keys *keys_out)
{
    *keys_out = (struct log_keys){.count = 1, .keys = {*key}};
}

const struct note_key *log_keys_newest(const struct log_keys *keys)
{
    return &keys->keys[keys->count - 1];
}

const struct note_key *log_keys_at(const struct log_keys *keys, uint64_t size)
{
    size_t at = keys->count - 1;

    while (at > 0 && size <= keys->starts[at].size) at--;
    return &keys->keys[at];
}

static bool contradicts(const struct log_keys *keys, const struct checkpoint *checkpoint)
{
    for (size_t i = 1; i < keys->count; i++)
        if (keys->starts[i].size == checkpoint->size && !merkle_hash_equal(&keys->starts[i].root, &checkpoint->root)) return true;
    return false;
}

struct result log_keys_verify(const struct log_keys *keys, const struct note *note, struct checkpoint *checkpoint_out,
                              const struct note_key **key_out, struct error *err)
{
    struct checkpoint checkpoint;

    TRY(checkpoint_read(note->text, &checkpoint, err));
    const struct note_key *key = log_keys_at(keys, checkpoint.size);
    TRY(note_verify(note, key, NULL, err));
    if (strcmp(checkpoint.origin, key->name) != 0)
        return failure(err, ERROR_DENIED, "the checkpoint is of the log %.80s, but the key is that of %.80s", checkpoint.origin,
                       key->name);
    if (contradicts(keys, &checkpoint))
        return failure(
            err, ERROR_DENIED,
            "the key of the log changed at %llu entries, and the checkpoint of as many has another root: the log forked",
            (unsigned long long)checkpoint.size);
    *checkpoint_out = checkpoint;
    if (key_out != NULL) *key_out = key;
    return SUCCESS;
}
