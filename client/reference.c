#include "client/reference.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "client/address.h"
#include "crypto/digest.h"
#include "registry/names/reference.h"

#define HOST_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]"

static struct result take_part(const char *from, size_t length, char *place, size_t room, const char *what, struct error *err)
{
    if (length == 0 || length >= room) return failure(err, ERROR_INVALID, "a %s of %zu characters", what, length);
    memcpy(place, from, length);
    place[length] = '\0';
    return SUCCESS;
}

static struct result take_reference(const char *text, struct remote_reference *reference, struct error *err)
{
    struct digest digest;

    TRY(take_part(text, strlen(text), reference->reference, sizeof reference->reference, "tag or digest", err));
    reference->was_given = true;
    if (reference->is_digest) return digest_parse(bytes_of_text(text), &digest, err);
    if (!tag_is_valid(bytes_of_text(text)))
        return failure(err, ERROR_INVALID, "'%.60s' is no tag: letters, digits, '_', '.' and '-', at most %d", text, TAG_MAX);
    return SUCCESS;
}

struct result remote_reference_parse(const char *text, struct remote_reference *reference_out, struct error *err)
{
    struct remote_reference reference = {.reference = "latest"};
    struct repository_name name;
    const char *slash = strchr(text, '/');

    TRY(address_check(text, err));
    if (strstr(text, "://") != NULL)
        return failure(err, ERROR_INVALID, "'%.100s': leave out %.*s", text, (int)(strstr(text, "://") - text + 3), text);
    if (slash == NULL || slash == text)
        return failure(err, ERROR_INVALID, "'%.100s' is not HOST/ORGANISATION/PROJECT/REPOSITORY[:TAG|@DIGEST]", text);
    TRY(take_part(text, (size_t)(slash - text), reference.host, sizeof reference.host, "host", err));
    if (!text_consists_of(bytes_of_text(reference.host), HOST_LETTERS))
        return failure(err, ERROR_INVALID, "'%.80s' is no host", reference.host);

    const char *path = slash + 1, *at = strchr(path, '@'), *colon = strchr(path, ':');
    reference.is_digest = at != NULL;
    const char *end = at != NULL ? at : colon;
    TRY(take_part(path, end == NULL ? strlen(path) : (size_t)(end - path), reference.repository, sizeof reference.repository,
                  "repository", err));
    TRY(repository_name_split(bytes_of_text(reference.repository), &name, err));
    if (end != NULL) TRY(take_reference(end + 1, &reference, err));
    *reference_out = reference;
    return SUCCESS;
}
