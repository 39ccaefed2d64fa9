/* gateway/http/tls_files.h -- where a server's certificate, its key and the authorities of its clients are. */
#pragma once

struct tls_files {
    const char *certificate, *key; /* PEM files */
    const char *client_ca;         /* the same; "": clients are not asked for a certificate */
};
