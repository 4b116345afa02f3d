//! Amazon's own file of credentials, `~/.aws/credentials`. The environment comes first, and is read by the `object_store` crate.
//!
//! What is found goes to the request's signature and nowhere else: it is neither stored nor printed.

use std::path::PathBuf;

/// Who we are to the server.
pub(crate) struct Found {
    pub(crate) key_id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

/// What the file says for the profile in `AWS_PROFILE`. `None` if the environment has credentials itself, or there is no such file.
pub(crate) fn from_file() -> Option<Found> {
    if std::env::var_os("AWS_ACCESS_KEY_ID").is_some()
        || std::env::var_os("AWS_WEB_IDENTITY_TOKEN_FILE").is_some()
    {
        return None;
    }
    let path = std::env::var_os("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".aws/credentials"))
    })?;
    let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
    parse(&std::fs::read_to_string(path).ok()?, &profile)
}

fn parse(text: &str, profile: &str) -> Option<Found> {
    let (mut key_id, mut secret, mut token) = (None, None, None);
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = name.trim() == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| inside) {
            let value = Some(value.trim().to_owned());
            match name.trim() {
                "aws_access_key_id" => key_id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(Found { key_id: key_id?, secret: secret?, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_that_is_asked_for_is_found() {
        let text = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=S=x\n\n[work]\naws_access_key_id=B\n\
                    aws_secret_access_key = T\naws_session_token = U\n";
        let found = parse(text, "default").unwrap();
        assert_eq!((found.key_id.as_str(), found.secret.as_str(), found.token), ("A", "S=x", None));
        assert_eq!(parse(text, "work").unwrap().token.as_deref(), Some("U"));
        assert!(parse(text, "other").is_none());
        assert!(parse("[default]\naws_access_key_id = A\n", "default").is_none());
    }
}
