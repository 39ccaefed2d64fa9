/* Creates, seals and opens the file of the key ring. */
#include <fcntl.h>
#include <string.h>

#include "audit/format/checkpoint.h"
#include "base/file.h"
#include "crypto/random.h"
#include "keyd/keyring_priv.h"

static struct keyring_body *body_in(struct secret *secret)
{
    return (struct keyring_body *)(void *)secret->bytes;
}

static struct result seal(const struct keyring_body *body, struct bytes passphrase, struct password_cost cost,
                          struct buffer *file, struct error *err)
{
    OWNED(secret) *plain = NULL;
    OWNED(secret) *key = NULL;
    struct keyring_header header = {.format = keyring_body_format(body), .cost = cost};
    uint8_t raw[KEYRING_HEADER_SIZE], *destination = NULL;

    random_bytes(header.salt, sizeof header.salt);
    keyring_header_write(&header, raw);
    TRY(secret_new(KEYRING_BODY_MAX + 1, &plain, err));
    struct buffer text = {.data = plain->bytes, .capacity = plain->length, .maximum = KEYRING_BODY_MAX};
    TRY(keyring_body_write(body, &text, err));
    TRY(password_key(passphrase, header.salt, header.cost, &key, err));
    TRY(buffer_add(file, raw, sizeof raw, err));
    TRY(buffer_reserve(file, text.length + BOX_OVERHEAD, &destination, err));
    box_seal(key->bytes, (struct bytes){raw, sizeof raw}, buffer_bytes(&text), destination);
    file->length += text.length + BOX_OVERHEAD;
    return SUCCESS;
}

static struct result read_file(int directory, struct buffer *file, struct error *err)
{
    OWNED_FD fd = -1;
    uint64_t size = 0;
    uint8_t *destination = NULL;

    TRY(file_open_at(directory, KEYRING_FILE, O_RDONLY, 0, &fd, err));
    TRY(file_size(fd, &size, err));
    if (size > KEYRING_FILE_MAX) return failure(err, ERROR_CORRUPT, "the key ring is too large to be one");
    TRY(buffer_reserve(file, size, &destination, err));
    TRY(file_read_at(fd, destination, size, 0, err));
    file->length = size;
    return SUCCESS;
}

static struct result unseal(struct bytes file, struct bytes passphrase, struct keyring_header *header_out,
                            struct secret **body_out, struct error *err)
{
    OWNED(secret) *key = NULL;
    OWNED(secret) *plain = NULL;
    OWNED(secret) *body = NULL;

    TRY(keyring_header_read(file, header_out, err));
    TRY(password_key(passphrase, header_out->salt, header_out->cost, &key, err));
    const struct bytes header = {file.data, KEYRING_HEADER_SIZE};
    const struct bytes box = {file.data + KEYRING_HEADER_SIZE, file.length - KEYRING_HEADER_SIZE};
    TRY(secret_new(box.length - BOX_OVERHEAD + 1, &plain, err));
    if (!box_open(key->bytes, header, box, plain->bytes, err).ok)
        return failure(err, ERROR_DENIED, "the passphrase does not open the key ring (or its file was changed)");
    TRY(secret_new(sizeof(struct keyring_body), &body, err));
    TRY(keyring_body_read((struct bytes){plain->bytes, plain->length - 1}, header_out->format, body_in(body), err));
    *body_out = GIVE(body);
    return SUCCESS;
}

struct result keyring_unseal(int directory, struct bytes passphrase, struct secret **body_out, struct error *err)
{
    struct buffer OWNED_BUFFER file = BUFFER(KEYRING_FILE_MAX);
    struct keyring_header header;

    TRY(read_file(directory, &file, err));
    return unseal(buffer_bytes(&file), passphrase, &header, body_out, err);
}

/* With a name that a checkpoint can't hold, the log could not be signed. */
static struct result set_origin(struct keyring_body *body, const char *origin, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(CHECKPOINT_TEXT_MAX);
    struct checkpoint checkpoint = {.size = 0};

    _Static_assert(sizeof body->origin == sizeof checkpoint.origin, "a checkpoint has room for the origin");
    if (strlen(origin) >= sizeof body->origin)
        return failure(err, ERROR_INVALID, "an origin has at most %zu letters", sizeof body->origin - 1);
    memcpy(checkpoint.origin, origin, strlen(origin) + 1);
    TRY(checkpoint_write(&checkpoint, &text, err));
    memcpy(body->origin, origin, strlen(origin) + 1);
    return SUCCESS;
}

/* The key in the token is made first: a crash may leave an unused key there, but never a version without its key. */
static struct result make_version(struct keyring_root *root, uint32_t number, struct hsm *hsm, struct error *err)
{
    *root = (struct keyring_root){.number = number, .kind = hsm == NULL ? KEYRING_ROOT : KEYRING_TOKEN};
    random_bytes(root->bytes, hsm == NULL ? sizeof root->bytes : PKCS11_ID_SIZE);
    return hsm == NULL ? SUCCESS : hsm_make_key(hsm, root->bytes, number, err);
}

static struct result make_keys(struct keyring_body *body, struct hsm *hsm, struct error *err)
{
    OWNED(ecdsa_key) *token_key = NULL;
    OWNED(secret) *scalar = NULL;

    TRY(ecdsa_key_new(&token_key, err));
    TRY(ecdsa_key_scalar(token_key, &scalar, err));
    memcpy(body->token_scalar, scalar->bytes, sizeof body->token_scalar);
    random_bytes(body->log_seed, sizeof body->log_seed);
    random_bytes(body->index_key, sizeof body->index_key);
    random_bytes(body->ledger_key, sizeof body->ledger_key);
    body->versions.count = body->epochs.count = 1;
    TRY(make_version(&body->epochs.each[0], 1, NULL, err));
    return make_version(&body->versions.each[0], 1, hsm, err);
}

static struct result check_absent(int directory, struct error *err)
{
    OWNED_FD fd = -1;

    if (file_open_at(directory, KEYRING_FILE, O_RDONLY, 0, &fd, err).ok)
        return failure(err, ERROR_CONFLICT, "there is a key ring already; it is never overwritten");
    return err->kind == ERROR_NOT_FOUND ? SUCCESS : (struct result){.ok = false};
}

struct result keyring_create(int directory, const struct keyring_options *options,
                             struct result (*prepare)(int directory, const uint8_t ledger_key[32], struct error *err),
                             struct error *err)
{
    OWNED(secret) *body = NULL;
    struct buffer OWNED_BUFFER file = BUFFER(KEYRING_FILE_MAX);

    if (options->passphrase.length == 0) return failure(err, ERROR_INVALID, "the passphrase is empty");
    TRY(check_absent(directory, err));
    TRY(secret_new(sizeof(struct keyring_body), &body, err));
    TRY(set_origin(body_in(body), options->origin, err));
    TRY(make_keys(body_in(body), options->hsm, err));
    TRY(seal(body_in(body), options->passphrase, options->cost, &file, err));
    TRY(prepare(directory, body_in(body)->ledger_key, err));
    return file_replace_at(directory, KEYRING_FILE, buffer_bytes(&file), 0600, err);
}

static struct result replace(int directory, const struct keyring_body *body, struct bytes passphrase, struct password_cost cost,
                             struct error *err)
{
    struct buffer OWNED_BUFFER file = BUFFER(KEYRING_FILE_MAX);

    TRY(seal(body, passphrase, cost, &file, err));
    return file_replace_at(directory, KEYRING_FILE, buffer_bytes(&file), 0600, err);
}

static struct result open_to_change(int directory, struct bytes passphrase, struct keyring_header *header,
                                    struct secret **body_out, struct error *err)
{
    struct buffer OWNED_BUFFER old = BUFFER(KEYRING_FILE_MAX);

    TRY(read_file(directory, &old, err));
    return unseal(buffer_bytes(&old), passphrase, header, body_out, err);
}

/* An epoch has the number of the version that came with it, so one re-wrap and one statement of a gateway serve both. */
static struct result add_epoch(struct keyring_roots *epochs, uint32_t number, struct error *err)
{
    if (epochs->count == KEYRING_ROOTS_MAX)
        return failure(err, ERROR_LIMIT, "the key ring holds %d epochs of subjects' keys already", KEYRING_ROOTS_MAX);
    TRY(make_version(&epochs->each[epochs->count], number, NULL, err));
    epochs->count++;
    return SUCCESS;
}

/* An epoch is unused if the next one is not newer than the version below which nothing is in use. The newest one stays. */
static void destroy_epochs(struct keyring_roots *epochs, const struct keyring_destruction *what)
{
    uint32_t gone = 0;

    while (gone + 1 < epochs->count && epochs->each[gone].number <= what->number &&
           epochs->each[gone + 1].number <= what->unused_below)
        gone++;
    if (gone == 0) return;
    secret_wipe(epochs->each, gone * sizeof epochs->each[0]);
    memmove(epochs->each, epochs->each + gone, (epochs->count - gone) * sizeof epochs->each[0]);
    secret_wipe(epochs->each + epochs->count - gone, gone * sizeof epochs->each[0]);
    epochs->count -= gone;
}

struct result keyring_add_version(int directory, struct bytes passphrase, struct hsm *hsm, uint32_t *number_out,
                                  struct error *err)
{
    OWNED(secret) *body = NULL;
    struct keyring_header header;

    TRY(open_to_change(directory, passphrase, &header, &body, err));
    struct keyring_roots *versions = &body_in(body)->versions;
    if (versions->count == KEYRING_ROOTS_MAX)
        return failure(err, ERROR_LIMIT, "the key ring holds %d versions already", KEYRING_ROOTS_MAX);
    struct keyring_root *added = &versions->each[versions->count];
    TRY(make_version(added, versions->each[versions->count - 1].number + 1, hsm, err));
    versions->count++;
    TRY(add_epoch(&body_in(body)->epochs, added->number, err));
    TRY(replace(directory, body_in(body), passphrase, header.cost, err));
    *number_out = added->number;
    return SUCCESS;
}

struct result keyring_add_log_key(int directory, struct bytes passphrase, struct error *err)
{
    OWNED(secret) *body = NULL;
    struct keyring_header header;

    TRY(open_to_change(directory, passphrase, &header, &body, err));
    struct keyring_body *content = body_in(body);
    if (content->further_count == KEYRING_FURTHER_MAX)
        return failure(err, ERROR_LIMIT, "the key ring holds %d keys of the log already", KEYRING_FURTHER_MAX + 1);
    random_bytes(content->further_seeds[content->further_count], sizeof content->further_seeds[0]);
    content->further_count++;
    return replace(directory, content, passphrase, header.cost, err);
}

static struct result find_to_destroy(struct keyring_roots *versions, uint32_t number, struct keyring_root **root_out,
                                     struct error *err)
{
    for (uint32_t i = 0; i < versions->count; i++) {
        struct keyring_root *root = &versions->each[i];
        if (root->number != number) continue;
        if (root->kind == KEYRING_DESTROYED) return failure(err, ERROR_CONFLICT, "version %u was destroyed before", number);
        if (i + 1 == versions->count)
            return failure(err, ERROR_CONFLICT, "version %u is the newest, which new keys are wrapped under: add one first",
                           number);
        *root_out = root;
        return SUCCESS;
    }
    return failure(err, ERROR_NOT_FOUND, "the key ring has no version %u", number);
}

/* If the key is not in the token, an earlier attempt destroyed it there and did not finish. */
static struct result destroy_in_token(const struct keyring_root *root, struct hsm *hsm, struct error *err)
{
    if (root->kind != KEYRING_TOKEN) return SUCCESS;
    if (hsm == NULL) return failure(err, ERROR_INVALID, "version %u is in a token: give the --token options", root->number);
    const struct result destroyed = hsm_destroy_key(hsm, root->bytes, err);
    return destroyed.ok || err->kind != ERROR_NOT_FOUND ? destroyed : SUCCESS;
}

struct result keyring_destroy_version(int directory, const struct keyring_destruction *what, struct error *err)
{
    OWNED(secret) *body = NULL;
    struct keyring_header header;
    struct keyring_root *root = NULL;

    TRY(open_to_change(directory, what->passphrase, &header, &body, err));
    TRY(find_to_destroy(&body_in(body)->versions, what->number, &root, err));
    if (what->hsm != NULL && root->kind == KEYRING_TOKEN)
        TRY(hsm_check(what->hsm, err)); /* otherwise all keys would look destroyed */
    TRY(destroy_in_token(root, what->hsm, err));
    secret_wipe(root->bytes, sizeof root->bytes);
    memset(root->bytes, 0, sizeof root->bytes);
    root->kind = KEYRING_DESTROYED;
    store_u64(root->bytes, (uint64_t)what->now_s);
    destroy_epochs(&body_in(body)->epochs, what);
    return replace(directory, body_in(body), what->passphrase, header.cost, err);
}
