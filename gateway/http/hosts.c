#include "gateway/http/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define PORT_SIZE 6 /* "65535" */

struct authority {
    struct bytes name; /* with the brackets of an IPv6 address */
    struct bytes port; /* "443" if there is none; "*" */
};

static bool consists_of(struct bytes text, const char *letters)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] == '\0' || strchr(letters, text.data[i]) == NULL) return false;
    return text.length > 0;
}

static bool is_name(struct bytes name)
{
    if (name.length > 2 && name.data[0] == '[' && name.data[name.length - 1] == ']')
        return consists_of((struct bytes){name.data + 1, name.length - 2}, "0123456789abcdefABCDEF:.");
    return consists_of(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
}

/* Without leading zeros, so that equal ports are equal texts. */
static bool is_port(struct bytes port)
{
    uint64_t number = 0;

    return port.length < PORT_SIZE && port.length > 0 && port.data[0] != '0' && text_to_u64(port, UINT16_MAX, &number);
}

static bool split(struct bytes text, struct authority *authority_out)
{
    const bool is_address = text.length > 0 && text.data[0] == '[';
    const uint8_t *end = text.length == 0 ? NULL : memchr(text.data, is_address ? ']' : ':', text.length);
    const size_t length = end == NULL ? text.length : (size_t)(end - text.data) + (is_address ? 1 : 0);
    struct authority authority = {{text.data, length}, bytes_of_text("443")};

    if (length < text.length) {
        if (text.data[length] != ':') return false;
        authority.port = (struct bytes){text.data + length + 1, text.length - length - 1};
    }
    *authority_out = authority;
    return is_name(authority.name);
}

/* The next word of a list from *at; empty at the end. */
static struct bytes next_word(const char *list, size_t *at)
{
    *at += strspn(list + *at, " \t,");
    const struct bytes word = {(const uint8_t *)list + *at, strcspn(list + *at, " \t,")};
    *at += word.length;
    return word;
}

static bool is_allowed_word(struct bytes word, struct authority *authority_out)
{
    return split(word, authority_out) && (is_port(authority_out->port) || bytes_equal(authority_out->port, bytes_of_text("*")));
}

/* A host of four numbers must be an IPv4 address, so that it is never resolved as a name. */
static bool is_sound(struct bytes name)
{
    const bool has_brackets = name.length > 2 && name.data[0] == '[';
    char text[254] = ""; /* RFC 1035: 253 letters of a name */
    uint8_t binary[sizeof(struct in6_addr)];

    if (name.length >= sizeof text || name.data[0] == '.') return false;
    memcpy(text, name.data + (has_brackets ? 1 : 0), name.length - (has_brackets ? 2 : 0));
    if (has_brackets) return inet_pton(AF_INET6, text, binary) == 1;
    const char *dot = strrchr(text, '.'), *last = dot == NULL ? text : dot + 1;
    const bool is_number = last[0] != '\0' && last[strspn(last, "0123456789")] == '\0';
    return strstr(text, "..") == NULL && (!is_number || inet_pton(AF_INET, text, binary) == 1);
}

bool hosts_is_url(const char *url)
{
    static const char scheme[] = "https://";
    struct authority authority;

    return strncmp(url, scheme, strlen(scheme)) == 0 && split(bytes_of_text(url + strlen(scheme)), &authority) &&
           is_port(authority.port) && is_sound(authority.name);
}

struct result hosts_check(const char *allowed, struct error *err)
{
    struct authority authority;
    size_t at = 0;

    for (struct bytes word; (word = next_word(allowed, &at)).length > 0;)
        if (!is_allowed_word(word, &authority) || !is_sound(authority.name))
            return failure(err, ERROR_INVALID, "allowed_hosts: %.*s: host, host:port or host:*, with spaces between them",
                           (int)(word.length > 100 ? 100 : word.length), (const char *)word.data);
    return SUCCESS;
}

bool hosts_next(const char *allowed, size_t *at, struct bytes *name_out)
{
    struct authority authority;

    if (!is_allowed_word(next_word(allowed, at), &authority)) return false;
    const size_t bracket = authority.name.data[0] == '[' ? 1 : 0;
    *name_out = (struct bytes){authority.name.data + bracket, authority.name.length - 2 * bracket};
    return true;
}

static bool fits(const struct authority *allowed, const struct authority *asked)
{
    const bool is_same_name =
        allowed->name.length == asked->name.length &&
        strncasecmp((const char *)allowed->name.data, (const char *)asked->name.data, asked->name.length) == 0;

    return is_same_name && (bytes_equal(allowed->port, asked->port) || bytes_equal(allowed->port, bytes_of_text("*")));
}

static bool is_allowed(const char *list, const struct authority *asked)
{
    struct authority allowed;
    size_t at = 0;

    for (struct bytes word; (word = next_word(list, &at)).length > 0;)
        if (is_allowed_word(word, &allowed) && fits(&allowed, asked)) return true;
    return false;
}

static void write_url(const struct authority *authority, char url_out[HOSTS_URL_SIZE])
{
    const bool is_usual = bytes_equal(authority->port, bytes_of_text("443"));

    (void)snprintf(url_out, HOSTS_URL_SIZE, "https://%.*s%s%.*s", (int)authority->name.length, (const char *)authority->name.data,
                   is_usual ? "" : ":", is_usual ? 0 : (int)authority->port.length, (const char *)authority->port.data);
    for (char *letter = url_out; *letter != '\0'; letter++)
        if (*letter >= 'A' && *letter <= 'Z') *letter = (char)(*letter - 'A' + 'a');
}

void hosts_url(const struct hosts *hosts, const char *host, char url_out[HOSTS_URL_SIZE])
{
    struct authority asked;

    if (split(bytes_of_text(host), &asked) && is_port(asked.port) && is_allowed(hosts->allowed, &asked))
        write_url(&asked, url_out);
    else (void)snprintf(url_out, HOSTS_URL_SIZE, "%s", hosts->public_url);
}
