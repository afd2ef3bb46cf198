//! The numbers of this machine's users and groups, as `/etc/passwd` and `/etc/group` have
//! them.
//!
//! The C library would also ask other sources, such as a directory service, with code that it
//! loads at run time. A program that is linked with it statically cannot. Users from such a
//! source are configured by number.

use std::fs;
use std::io;

use sprat_config::resolved::{Account, AccountAt, SocketOwner};

use crate::problem::Problem;

/// A kind of account, which has a name and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountKind {
    User,
    Group,
}

impl AccountKind {
    fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::User => "/etc/passwd",
            Self::Group => "/etc/group",
        }
    }

    /// Returns the number of a user or a group: the one given, or that of its name in the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no such name.
    pub(crate) fn number(self, account: &Account) -> io::Result<u32> {
        let name = match account {
            Account::Number(number) => return Ok(*number),
            Account::Name(name) => name,
        };
        let (kind, file) = (self.name(), self.file());
        let text = fs::read(file)
            .map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))?;
        let unknown = || {
            let what = format!("{file} has no {kind} `{name}`");
            io::Error::new(io::ErrorKind::NotFound, what)
        };
        find(&String::from_utf8_lossy(&text), name).ok_or_else(unknown)
    }

    /// Returns the problem with the user or group that the configuration names, if there is one.
    fn inspect(self, named: Option<&AccountAt>) -> Option<Problem> {
        let AccountAt { account, span } = named?;
        let error = self.number(account).err()?;
        let help = format!(
            "take a {kind} that is there, add this one to the machine, or give its number, as \
             for {kind}s from a directory service",
            kind = self.name()
        );
        Some(Problem::at(span, error.to_string()).help(help))
    }
}

/// Returns the problems with a socket's owners, as the configuration names them.
pub(crate) fn inspect(owner: &SocketOwner) -> impl Iterator<Item = Problem> {
    let user = AccountKind::User.inspect(owner.user.as_ref());
    user.into_iter()
        .chain(AccountKind::Group.inspect(owner.group.as_ref()))
}

/// Returns the number in the first line `NAME:PASSWORD:NUMBER:...` of that name.
fn find(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        fields.nth(1).filter(|_| is_it)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_number() {
        let text = "# none\nroot:x:0:0:root:/root:/bin/sh\n+nis\nweb:x:33:33::/:\nweb:x:34:";
        assert_eq!(find(text, "web"), Some(33));
        assert_eq!(find(text, "root"), Some(0));
        assert_eq!(find(text, "we"), None);
        assert_eq!(find(text, "+nis"), None);
    }

    #[test]
    fn what_is_not_there_is_told() {
        let root = Account::Name("root".to_owned());
        assert_eq!(AccountKind::User.number(&root).unwrap(), 0);
        assert_eq!(AccountKind::Group.number(&Account::Number(7)).unwrap(), 7);
        let none = Account::Name("no-such-group".to_owned());
        let error = AccountKind::Group.number(&none).unwrap_err();
        assert_eq!(error.to_string(), "/etc/group has no group `no-such-group`");
    }
}
