#include "witness/identity.h"

#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "crypto/aead.h"
#include "crypto/ed25519.h"
#include "crypto/random.h"

/* magic[4] | u8 version | u32 passes | u32 memory | salt[16] | box of (u32 length, name, seed[32]) */
#define MAGIC       "SJWK"
#define VERSION     1
#define HEADER_SIZE (4 + 1 + 4 + 4 + PASSWORD_SALT_SIZE)
#define BODY_MAX    (4 + NOTE_NAME_MAX + ED25519_SEED_SIZE)
#define FILE_MAX    (HEADER_SIZE + BODY_MAX + BOX_OVERHEAD)

static struct result check_absent(int directory, struct error *err)
{
    OWNED_FD fd = -1;

    if (file_open_at(directory, WITNESS_KEY_FILE, O_RDONLY, 0, &fd, err).ok)
        return failure(err, ERROR_CONFLICT, "there is a key already; it is never overwritten");
    return err->kind == ERROR_NOT_FOUND ? SUCCESS : (struct result){.ok = false};
}

static struct result write_header(struct password_cost cost, const uint8_t salt[PASSWORD_SALT_SIZE], struct buffer *file,
                                  struct error *err)
{
    TRY(buffer_add_text(file, MAGIC, err));
    TRY(buffer_add_u8(file, VERSION, err));
    TRY(buffer_add_u32(file, cost.passes, err));
    TRY(buffer_add_u32(file, cost.memory_kib, err));
    return buffer_add(file, salt, PASSWORD_SALT_SIZE, err);
}

static struct result seal(const char *name, struct bytes passphrase, struct password_cost cost, struct buffer *file,
                          struct error *err)
{
    OWNED(secret) *plain = NULL;
    OWNED(secret) *key = NULL;
    OWNED(secret) *seed = NULL;
    uint8_t salt[PASSWORD_SALT_SIZE], *box = NULL;

    random_bytes(salt, sizeof salt);
    TRY(write_header(cost, salt, file, err));
    TRY(secret_random(ED25519_SEED_SIZE, &seed, err));
    TRY(secret_new(BODY_MAX + 1, &plain, err)); /* a buffer has a '\0' behind its bytes */
    struct buffer body = {.data = plain->bytes, .capacity = plain->length, .maximum = BODY_MAX};
    TRY(buffer_add_prefixed(&body, bytes_of_text(name), err));
    TRY(buffer_add(&body, seed->bytes, seed->length, err));
    TRY(password_key(passphrase, salt, cost, &key, err));
    TRY(buffer_reserve(file, body.length + BOX_OVERHEAD, &box, err));
    box_seal(key->bytes, (struct bytes){file->data, HEADER_SIZE}, buffer_bytes(&body), box);
    file->length += body.length + BOX_OVERHEAD;
    return SUCCESS;
}

struct result witness_identity_create(int directory, const char *name, struct bytes passphrase, struct password_cost cost,
                                      struct error *err)
{
    static const uint8_t none[ED25519_PUBLIC_SIZE];
    struct buffer OWNED_BUFFER file = BUFFER(FILE_MAX);
    struct note_key key;

    if (passphrase.length == 0) return failure(err, ERROR_INVALID, "the passphrase is empty");
    TRY(note_key_make(name, NOTE_COSIGNATURE, none, &key, err)); /* for the check of its name */
    TRY(check_absent(directory, err));
    TRY(seal(name, passphrase, cost, &file, err));
    return file_replace_at(directory, WITNESS_KEY_FILE, buffer_bytes(&file), 0600, err);
}

static struct result read_file(int directory, struct buffer *file, struct error *err)
{
    OWNED_FD fd = -1;
    uint64_t size = 0;
    uint8_t *destination = NULL;

    TRY(file_open_at(directory, WITNESS_KEY_FILE, O_RDONLY | O_NOFOLLOW, 0, &fd, err));
    TRY(file_size(fd, &size, err));
    if (size > FILE_MAX || size <= HEADER_SIZE + BOX_OVERHEAD)
        return failure(err, ERROR_CORRUPT, "the file of the witness's key has a wrong size");
    TRY(buffer_reserve(file, (size_t)size, &destination, err));
    TRY(file_read_at(fd, destination, (size_t)size, 0, err));
    file->length = (size_t)size;
    return SUCCESS;
}

static struct result read_header(struct bytes file, struct password_cost *cost_out, const uint8_t **salt_out, struct error *err)
{
    struct reader reader = reader_of(file);
    const struct bytes magic = reader_take(&reader, strlen(MAGIC));

    if (!bytes_equal(magic, bytes_of_text(MAGIC)) || reader_u8(&reader) != VERSION)
        return failure(err, ERROR_CORRUPT, "the file of the witness's key is not one, or of a newer version");
    cost_out->passes = reader_u32(&reader);
    cost_out->memory_kib = reader_u32(&reader);
    *salt_out = reader_take(&reader, PASSWORD_SALT_SIZE).data;
    return SUCCESS;
}

static struct result read_body(struct bytes body, struct witness_identity *identity, struct error *err)
{
    struct reader reader = reader_of(body);
    const struct bytes name = reader_prefixed(&reader, NOTE_NAME_MAX);
    const struct bytes seed = reader_take(&reader, ED25519_SEED_SIZE);
    uint8_t public_key[ED25519_PUBLIC_SIZE];
    char text[NOTE_NAME_MAX + 1] = "";

    if (reader.failed || reader.left.length > 0) return failure(err, ERROR_CORRUPT, "the file of the witness's key is damaged");
    memcpy(text, name.data, name.length);
    TRY(secret_copy(seed, &identity->seed, err));
    TRY(ed25519_public(identity->seed, public_key, err));
    return note_key_make(text, NOTE_COSIGNATURE, public_key, &identity->key, err);
}

static struct result unseal(struct bytes file, struct bytes passphrase, struct witness_identity *identity, struct error *err)
{
    OWNED(secret) *key = NULL;
    OWNED(secret) *plain = NULL;
    struct password_cost cost;
    const uint8_t *salt = NULL;
    const struct bytes header = {file.data, HEADER_SIZE}, box = {file.data + HEADER_SIZE, file.length - HEADER_SIZE};

    TRY(read_header(header, &cost, &salt, err));
    TRY(password_key(passphrase, salt, cost, &key, err));
    TRY(secret_new(box.length - BOX_OVERHEAD, &plain, err));
    if (!box_open(key->bytes, header, box, plain->bytes, err).ok)
        return failure(err, ERROR_DENIED, "the passphrase does not open the witness's key (or its file was changed)");
    return read_body(secret_bytes(plain), identity, err);
}

struct result witness_identity_open(int directory, struct bytes passphrase, struct witness_identity **identity_out,
                                    struct error *err)
{
    OWNED(witness_identity) *identity = memory_zeroed(1, sizeof *identity);
    struct buffer OWNED_BUFFER file = BUFFER(FILE_MAX);

    if (identity == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a key");
    TRY(read_file(directory, &file, err));
    TRY(unseal(buffer_bytes(&file), passphrase, identity, err));
    *identity_out = GIVE(identity);
    return SUCCESS;
}

struct result witness_identity_print(const struct witness_identity *identity, struct buffer *text, struct error *err)
{
    struct note_key older;

    TRY(note_key_write(&identity->key, text, err));
    TRY(buffer_add_u8(text, '\n', err));
    TRY(note_key_make(identity->key.name, NOTE_ED25519, identity->key.public_key, &older, err));
    TRY(note_key_write(&older, text, err));
    return buffer_add_u8(text, '\n', err);
}

void witness_identity_free(struct witness_identity *identity)
{
    if (identity == NULL) return;
    secret_free(identity->seed);
    free(identity);
}
